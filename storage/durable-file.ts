import { mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { randomUUID } from 'node:crypto'

/**
 * Makes a directory that an operator named, with those above it; one that is there stays as it is. Node's own recursive
 * form tries for ever where the system makes no directories, such as below `/proc`.
 */
export async function makeDirectory(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === 'ENOENT' && dirname(path) !== path) {
      await makeDirectory(dirname(path), mode)
      await mkdir(path, { mode })
    } else if (code !== 'EEXIST' || !(await stat(path)).isDirectory()) {
      throw thrown
    }
  }
}

/** Makes entries of the directory (new names, renames, removals) survive a power failure. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows has no way to open a directory for this; NTFS journals its names itself.
  if (process.platform === 'win32') return
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Writes a file so that after a crash it is there with all of `content`, or as it was before. */
export async function writeDurably(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  const draft = join(dirname(path), `.${basename(path)}.${randomUUID()}`)
  try {
    await writeFile(draft, content, { mode, flag: 'wx', flush: true })
    await rename(draft, path)
  } catch (thrown) {
    await rm(draft, { force: true })
    throw thrown
  }
  await syncDirectory(dirname(path))
}
