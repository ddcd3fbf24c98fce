import type { Pool } from 'pg'
import type { Caller } from '../../../runtime/endpoint/endpoint.ts'
import { AuditLog } from '../../../storage/audit/audit-log.ts'
import type { NewAuditEvent } from '../../../storage/audit/new-audit-event.ts'
import type { Verification } from '../../../storage/audit/verification.ts'
import { query } from '../../../storage/postgres/pool.ts'

/** A log to write and to tamper with. */

export const KEY = 'a key of the audit chain'
export const OTHER_KEY = 'another key of the chain'

export const OPS: Caller = { name: 'sa:ops', credential: 'api-token', credentialName: 'Xk3vQ9mT2bLp' }

export function newEvent(name: string, changes: Partial<NewAuditEvent> = {}): NewAuditEvent {
  return {
    action: 'updated',
    kind: 'organization',
    recordId: 1,
    recordName: name,
    changes: [{ field: 'display_name', old: 'before', new: name }],
    ...changes,
  }
}

/** Writes so many events, one after the other, and answers their ids. */
export async function write(pool: Pool, key: string | null, count: number): Promise<number[]> {
  const log = new AuditLog({ pool, key })
  for (let at = 1; at <= count; at += 1) await log.recordAlone(OPS, newEvent(`event-${at}`))
  return (await idsOf(pool)).slice(-count)
}

export async function idsOf(pool: Pool): Promise<number[]> {
  const rows = await query<{ id: number }>(pool, 'select id from audit_event order by id')
  return rows.map(({ id }) => id)
}

export interface Tampering {
  readonly text: string
  readonly values?: readonly unknown[]
}

/** Changes the log as nobody may: by somebody who takes the guards of the database away for it. */
export async function tamper(pool: Pool, ...statements: readonly Tampering[]): Promise<void> {
  const guards = (state: string): string =>
    GUARDS.map(([table, trigger]) => `alter table ${table} ${state} trigger ${trigger}`).join('; ')
  await pool.query(guards('disable'))
  for (const { text, values } of statements) await query(pool, text, values)
  await pool.query(guards('enable always'))
}

const GUARDS = [
  ['audit_event', 'only_grows'],
  ['audit_head', 'only_advances'],
  ['audit_head', 'stays'],
  ['audit_witness', 'only_advances'],
  ['audit_witness', 'stays'],
] as const

/** Verifies as the endpoint does, and keeps what was found. */
export async function verifyAndNote(log: AuditLog): Promise<Verification> {
  const found = await log.verify()
  await log.noteVerification(OPS, found)
  return found
}

export interface HeadRow {
  readonly first_id: number
  readonly last_id: number
  readonly hash: string
  readonly mac: string
}

export async function headOf(pool: Pool): Promise<HeadRow> {
  const [head] = await query<HeadRow>(pool, 'select first_id, last_id, hash, mac from audit_head')
  if (head === undefined) throw new Error('There is no head')
  return head
}

/** Cuts the log off as the best prepared intruder would: who has kept the head of that time puts it back. */
export async function cutOffAt(pool: Pool, { first_id, last_id, hash, mac }: HeadRow): Promise<void> {
  await tamper(
    pool,
    { text: 'delete from audit_event where id > $1', values: [last_id] },
    {
      text: 'update audit_head set first_id = $1, last_id = $2, hash = $3, mac = $4',
      values: [first_id, last_id, hash, mac],
    },
  )
}
