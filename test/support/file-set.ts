import { hash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'

/** Files by name with the SHA-256 of their content. */
export type FileSet = ReadonlyMap<string, string>

const NAMES = [
  'invoice',
  'Rechnung Größe',
  'two  spaces',
  'dots.in.the.name',
  'façade №',
  'tilde~#&$%',
  "quote's",
  '日本語',
] as const

/** Writes so many files of odd names into a folder beside the outbox, an empty one among them, and one of 50 MB if asked. */
export async function makeFiles(
  folder: string,
  count: number,
  options: { large?: boolean } = {},
): Promise<FileSet> {
  await mkdir(folder, { recursive: true })
  const files = new Map<string, string>()
  const write = async (name: string, content: Buffer): Promise<void> => {
    files.set(name, hash('sha256', content, 'hex'))
    await writeFile(join(folder, name), content)
  }
  for (let index = 0; index < count; index += 1) {
    const name = `${NAMES[index % NAMES.length]} ${index}.edi`.normalize('NFC')
    await write(name, index === 0 ? Buffer.alloc(0) : randomBytes(500 + ((index * 37) % 4_000)))
  }
  if (options.large === true) await write('large file.bin', randomBytes(50 * 1024 * 1024))
  return files
}

/** Hands one file over: it is written under a name that no poller looks at, and appears complete. */
export async function dropFile(outbox: string, name: string, content: string | Uint8Array): Promise<void> {
  await mkdir(outbox, { recursive: true })
  const draft = join(outbox, `.${name}`)
  await writeFile(draft, content)
  await rename(draft, join(outbox, name))
}

/** Hands all files over at once, or so many of them: each appears complete. */
export async function dropFiles(folder: string, outbox: string, count = Infinity): Promise<void> {
  await mkdir(outbox, { recursive: true })
  for (const name of (await readdir(folder)).slice(0, count))
    await rename(join(folder, name), join(outbox, name))
}

/** What lies in a folder now. */
export async function readFiles(folder: string): Promise<FileSet> {
  const files = new Map<string, string>()
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (!entry.isFile()) continue
    const digest = createHash('sha256')
    await pipeline(createReadStream(join(folder, entry.name)), digest)
    files.set(entry.name, digest.digest('hex'))
  }
  return files
}
