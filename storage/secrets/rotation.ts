import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool, PoolClient } from 'pg'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { changesBetween } from '../audit/changes.ts'
import { execute, query, transaction } from '../postgres/pool.ts'
import { replaceCheck } from './key-check.ts'
import { SEALED_COLUMNS, type SealedColumn } from './sealed-columns.ts'
import { SecretBox } from './secret-box.ts'

/**
 * Seals every secret in the database anew, in one transaction: after a crash all of them are of one key or all of the
 * other. A process that writes a secret meanwhile waits, and is then refused by the trigger of the migration. Answers
 * how many secrets there are.
 */
export async function sealAnew(
  { pool, audit }: { readonly pool: Pool; readonly audit: AuditLog },
  keys: { from: string; to: string },
  caller: Caller,
): Promise<number> {
  const from = new SecretBox(keys.from)
  const to = new SecretBox(keys.to)
  return transaction(pool, async (client) => {
    // First: it takes the lock that writers of secrets share.
    await replaceCheck(client, to)
    let count = 0
    for (const column of SEALED_COLUMNS) count += await sealColumn(client, column, from, to)
    await audit.recordOn(client, caller, {
      action: 'updated',
      kind: 'secret-key',
      recordId: null,
      recordName: 'secret key',
      // The id names a key without telling it.
      changes: changesBetween({ key_id: from.keyId }, { key_id: to.keyId }),
    })
    return count
  })
}

async function sealColumn(
  client: PoolClient,
  { table, column, key, contextOf }: SealedColumn,
  from: SecretBox,
  to: SecretBox,
): Promise<number> {
  const rows = await query<{ key: string; sealed: string }>(
    client,
    `select ${key}::text as key, ${column} as sealed from ${table} where ${column} is not null order by ${key} for update`,
  )
  const sealed = rows.map((row) => {
    const context = contextOf(row.key)
    return to.seal(from.open(row.sealed, context), context)
  })
  await execute(
    client,
    `update ${table} t set ${column} = n.sealed
     from unnest($1::text[], $2::text[]) as n(key, sealed) where t.${key}::text = n.key`,
    [rows.map((row) => row.key), sealed],
  )
  return rows.length
}

/** Connections that were just closed are seen for a moment. */
const LINGER_MS = 3_000
const POLL_MS = 50

/** The names of other Waybill programs that stay connected to the database. */
export async function connectedPrograms(pool: Pool): Promise<readonly string[]> {
  for (const deadline = Date.now() + LINGER_MS; ; await sleep(POLL_MS)) {
    const programs = await programsNow(pool)
    if (programs.length === 0 || Date.now() > deadline) return programs
  }
}

async function programsNow(pool: Pool): Promise<readonly string[]> {
  const rows = await query<{ name: string }>(
    pool,
    `select distinct application_name as name from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
       and application_name like 'waybill%' and application_name <> current_setting('application_name')
     order by 1`,
  )
  return rows.map(({ name }) => name)
}
