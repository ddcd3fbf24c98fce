import type { EntityManager } from '@mikro-orm/postgresql'
import { query, type Queryable } from '../postgres/pool.ts'

/** An event as it is stored: texts exactly as the hash covers them. */
export interface StoredEvent {
  readonly v: number
  readonly id: number
  /** RFC 3339 in UTC with three digits after the second. */
  readonly at: string
  readonly actor: string
  readonly action: string
  readonly kind: string
  readonly record_id: string | null
  readonly record_name: string
  /** A JSON list, with the very spaces it was stored with. */
  readonly changes: string
  /** Lower case hexadecimal; empty without a key. */
  readonly prev_hash: string
  readonly hash: string
}

/**
 * Runs one statement in a transaction, whoever holds it. `$1`, `$2`, … stand in the text once each and in order. The
 * name makes it a prepared statement where that is possible.
 */
export type Run = <Row extends object>(
  text: string,
  values: readonly unknown[],
  name?: string,
) => Promise<Row[]>

export const runOn =
  (client: Queryable): Run =>
  (text, values, name) =>
    query(client, text, values, name)

/** The ORM has question marks for the values, which none of our statements has otherwise. */
export const runIn =
  (em: EntityManager): Run =>
  <Row extends object>(text: string, values: readonly unknown[]) =>
    em.execute<Row[]>(text.replaceAll(/\$\d+/g, '?'), [...values])

/** How the database writes the time of an event. */
const TIME_FORMAT = `'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`

/** The columns of a StoredEvent but the id, which the ORM's pool reads as text. */
export const EVENT_COLUMNS = `v, to_char(at at time zone 'UTC', ${TIME_FORMAT}) as at, actor, action, kind, record_id,
  record_name, changes::text as changes, prev_hash, hash`

export async function eventOf(run: Run, id: number): Promise<StoredEvent | null> {
  const [row] = await run<Omit<StoredEvent, 'id'>>(
    `select ${EVENT_COLUMNS} from audit_event where id = $1::bigint`,
    [id],
    'audit event',
  )
  return row === undefined ? null : { ...row, id }
}

const BATCH =
  `select id::text as id, ${EVENT_COLUMNS} from audit_event where id > $1::bigint order by audit_event.id` +
  ` limit $2::int`

/** Bounds what is in memory at once, and how long the process looks at nothing else. */
const BATCH_SIZE = 500

/** All events in the order of their ids, a batch at a time. */
export async function* storedEvents(run: Run): AsyncGenerator<readonly StoredEvent[], void, undefined> {
  let after = 0
  for (;;) {
    const rows = await run<Omit<StoredEvent, 'id'> & { id: string }>(
      BATCH,
      [after, BATCH_SIZE],
      'audit batch',
    )
    const events = rows.map((row) => Object.assign(row, { id: Number(row.id) }))
    const last = events.at(-1)
    if (last === undefined) return
    yield events
    if (events.length < BATCH_SIZE) return
    after = last.id
  }
}
