import pg from 'pg'
import { execute, query, type Queryable } from '../postgres/pool.ts'

/** A message that its source took in and has not let go of. */
export interface OwnedMessage {
  readonly id: string
  readonly source_reference: string
  /** A refused message is settled already; only its source's matter still lies where it was found. */
  readonly refused: boolean
}

/** What a source still owns: work that a failure or an end of its thread cut off. Oldest first. */
export function ownedMessages(on: Queryable, source: string): Promise<OwnedMessage[]> {
  return query<OwnedMessage>(
    on,
    `select id, source_reference, status = 'Refused' as refused from message
     where source = $1 and source_reference is not null and (stage = 'accepted' or status = 'Refused')
     order by created_at, id`,
    [source],
  )
}

/** The source lets go of refused messages; `dispatch` does that for the others. */
export async function releaseRefused(on: Queryable, ids: readonly string[]): Promise<void> {
  await execute(
    on,
    `update message set source_reference = null where id = any ($1::uuid[]) and status = 'Refused'`,
    [ids],
  )
}

/** Those of the ids that are messages. */
export async function committedAmong(on: Queryable, ids: readonly string[]): Promise<Set<string>> {
  const rows = await query<{ id: string }>(on, 'select id from message where id = any ($1::uuid[])', [ids])
  return new Set(rows.map(({ id }) => id))
}

/** Whether the server itself refused the statement, so that nothing of it is or will be committed. */
export function isRolledBack(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !/^(08|57P)/.test(error.code ?? '08')
}

/** Whether it was refused for what it contained (classes 22 and 23): without the culprit the others would pass. */
export function isContentRefused(error: unknown): boolean {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? '')
}
