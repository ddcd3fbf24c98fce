import { randomBytes } from 'node:crypto'
import { readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { reasonOf } from '../../runtime/errors.ts'
import type { DataDirectory } from './data-directory.ts'
import { syncDirectory, writeDurably } from '../durable-file.ts'
import { StorageError } from '../storage-error.ts'

const FILE = 'secret.key'
/** The key of a rotation that has not ended: the database may be sealed with it already. */
const NEXT_FILE = 'secret.key.new'
const KEY_BYTES = 32
const SHORTEST_TEXT = 16

/**
 * The key in `<data directory>/secret.key`, which is made once. Without it sealed values are lost, so a file that
 * cannot be read is never replaced.
 */
export async function secretKeyOf(directory: DataDirectory): Promise<string> {
  const file = secretKeyFile(directory)
  const stored = await readKey(file)
  if (stored !== null) return stored
  const key = randomBytes(KEY_BYTES).toString('base64')
  await writeKey(file, key)
  return key
}

export function secretKeyFile(directory: DataDirectory): string {
  return join(directory.path, FILE)
}

/** The key that a rotation was about to put into place; null when there was none. */
export async function nextSecretKeyOf(directory: DataDirectory): Promise<string | null> {
  return readKey(join(directory.path, NEXT_FILE))
}

/** Makes a key for a rotation and keeps it, durably, before anything is sealed with it. */
export async function makeNextSecretKey(directory: DataDirectory): Promise<string> {
  const key = randomBytes(KEY_BYTES).toString('base64')
  await writeKey(join(directory.path, NEXT_FILE), key)
  return key
}

/** Puts the key of the rotation into the place of the present one. After a crash it is one or the other. */
export async function promoteNextSecretKey(directory: DataDirectory): Promise<void> {
  await rename(join(directory.path, NEXT_FILE), secretKeyFile(directory))
  await syncDirectory(directory.path)
}

async function readKey(file: string): Promise<string | null> {
  const stored = await readFile(file, 'utf8').catch((thrown: unknown) => {
    if (isMissing(thrown)) return null
    throw new StorageError(`The secret key ${file} cannot be read: ${reasonOf(thrown)}`, { cause: thrown })
  })
  if (stored === null) return null
  const key = stored.trim()
  if (key.length >= SHORTEST_TEXT) return key
  throw new StorageError(
    `The secret key ${file} is damaged; put the saved one in its place or set SECRET_KEY`,
  )
}

async function writeKey(file: string, key: string): Promise<void> {
  await writeDurably(file, `${key}\n`, 0o600).catch((thrown: unknown) => {
    throw new StorageError(`The secret key ${file} cannot be written: ${reasonOf(thrown)}`, { cause: thrown })
  })
}

function isMissing(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT'
}
