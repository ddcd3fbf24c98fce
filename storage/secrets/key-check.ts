import type { Pool, PoolClient } from 'pg'
import { execute, query, type Queryable } from '../postgres/pool.ts'
import { StorageError } from '../storage-error.ts'
import { SEALED_COLUMNS } from './sealed-columns.ts'
import { SecretBox } from './secret-box.ts'

/** A key that may be the one that the secrets are sealed with. */
export interface KeyCandidate {
  readonly key: string
  /** Where it comes from, for messages: `SECRET_KEY` or the path of a file. */
  readonly from: string
}

const CONTEXT = 'secret_key_check sealed'
const CHECK_VALUE = 'waybill'

interface Check {
  readonly key_id: string
  readonly sealed: string
}

/**
 * The candidate that the secrets in the database are sealed with, told by a check value that is sealed too. A database
 * without one gets it from the first candidate. Throws a StorageError when no candidate is the right one: a process
 * with a wrong key must not start.
 */
export async function keyInUse<C extends KeyCandidate>(
  pool: Pool,
  candidates: readonly [C, ...C[]],
): Promise<C> {
  const check = (await readCheck(pool)) ?? (await firstCheck(pool, candidates[0]))
  const right = candidates.find(({ key }) => opens(new SecretBox(key), check))
  if (right !== undefined) return right
  throw wrongKey(candidates, check.key_id)
}

/** Makes the check value of a rotation. From then on nothing can be stored that another key sealed. */
export async function replaceCheck(client: PoolClient, box: SecretBox): Promise<void> {
  const values = [box.keyId, box.seal(CHECK_VALUE, CONTEXT)]
  await execute(client, 'update secret_key_check set key_id = $1, sealed = $2, updated_at = now()', values)
}

async function readCheck(on: Queryable): Promise<Check | undefined> {
  const [check] = await query<Check>(on, 'select key_id, sealed from secret_key_check')
  return check
}

/** What was sealed before there was a check value must be of the same key. */
async function firstCheck(pool: Pool, candidate: KeyCandidate): Promise<Check> {
  const box = new SecretBox(candidate.key)
  for (const { table, column } of SEALED_COLUMNS) {
    const [other] = await query<{ key_id: string }>(
      pool,
      `select substr(${column}, 4, 8) as key_id from ${table} where not starts_with(${column}, $1) limit 1`,
      [`v1:${box.keyId}:`],
    )
    if (other !== undefined) throw wrongKey([candidate], other.key_id)
  }
  await execute(
    pool,
    'insert into secret_key_check (key_id, sealed) values ($1, $2) on conflict do nothing',
    [box.keyId, box.seal(CHECK_VALUE, CONTEXT)],
  )
  const stored = await readCheck(pool)
  if (stored === undefined) throw new Error('The check value of the secret key was not stored')
  return stored
}

function opens(box: SecretBox, { key_id, sealed }: Check): boolean {
  if (key_id !== box.keyId) return false
  try {
    return box.openText(sealed, CONTEXT) === CHECK_VALUE
  } catch {
    return false
  }
}

function wrongKey(candidates: readonly KeyCandidate[], present: string): StorageError {
  const given = candidates.map(({ key, from }) => `${from} (key ${new SecretBox(key).keyId})`).join(', ')
  return new StorageError(
    `The secrets in the database are sealed with the key ${present}, which is not that of ${given}; ` +
      'set SECRET_KEY to the right one, or put the saved secret.key back',
  )
}
