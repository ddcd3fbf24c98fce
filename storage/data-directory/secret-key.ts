import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { reasonOf } from '../../runtime/errors.ts'
import type { DataDirectory } from './data-directory.ts'
import { writeDurably } from '../durable-file.ts'
import { StorageError } from '../storage-error.ts'

const FILE = 'secret.key'
const KEY_BYTES = 32
const SHORTEST_TEXT = 16

/**
 * The key that secrets are sealed with: the one given (`SECRET_KEY`), or the text of `<data directory>/secret.key`,
 * which is made once. Without it sealed values are lost, so a file that cannot be read is never replaced.
 */
export async function secretKeyOf(directory: DataDirectory, given: string | undefined): Promise<string> {
  if (given !== undefined) return given
  const file = join(directory.path, FILE)
  const stored = await readFile(file, 'utf8').catch((thrown: unknown) => {
    if (isMissing(thrown)) return undefined
    throw new StorageError(`The secret key ${file} cannot be read: ${reasonOf(thrown)}`, { cause: thrown })
  })
  if (stored === undefined) return makeKey(file)
  const key = stored.trim()
  if (key.length >= SHORTEST_TEXT) return key
  throw new StorageError(
    `The secret key ${file} is damaged; put the saved one in its place or set SECRET_KEY`,
  )
}

async function makeKey(file: string): Promise<string> {
  const key = randomBytes(KEY_BYTES).toString('base64')
  await writeDurably(file, `${key}\n`, 0o600).catch((thrown: unknown) => {
    throw new StorageError(`The secret key ${file} cannot be written: ${reasonOf(thrown)}`, { cause: thrown })
  })
  return key
}

function isMissing(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT'
}
