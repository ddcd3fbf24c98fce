import type { Pool } from 'pg'
import type { DataDirectory } from '../data-directory/data-directory.ts'
import {
  nextSecretKeyOf,
  promoteNextSecretKey,
  secretKeyFile,
  secretKeyOf,
} from '../data-directory/secret-key.ts'
import { keyInUse, type KeyCandidate } from './key-check.ts'

/** The keys of the environment, `SECRET_KEY` and `NEW_SECRET_KEY`. */
export interface GivenKeys {
  readonly secretKey: string | undefined
  readonly newSecretKey: string | undefined
}

/**
 * The secret key that the database is sealed with: `SECRET_KEY`, or else that of the data directory. While a rotation
 * has not ended, be it that it was cut off, the new key is taken as well, and a file that it left is put into place.
 * Throws a StorageError when it is neither.
 */
export async function presentKey(pool: Pool, directory: DataDirectory, given: GivenKeys): Promise<string> {
  const { secretKey, newSecretKey } = given
  if (secretKey !== undefined) {
    const next = newSecretKey === undefined ? [] : [{ key: newSecretKey, from: 'NEW_SECRET_KEY' }]
    return (await keyInUse(pool, [{ key: secretKey, from: 'SECRET_KEY' }, ...next])).key
  }
  const file = secretKeyFile(directory)
  const present: KeyCandidate = { key: await secretKeyOf(directory), from: file }
  const nextKey = await nextSecretKeyOf(directory)
  if (nextKey === null) return (await keyInUse(pool, [present])).key
  const next: KeyCandidate = { key: nextKey, from: `${file}.new` }
  const used = await keyInUse(pool, [present, next])
  // One that the database does not know was left before anything was sealed with it: the next rotation replaces it.
  if (used === next) await promoteNextSecretKey(directory)
  return used.key
}
