import { hash } from 'node:crypto'
import pg from 'pg'

export const TARGET = 'target'
const SOURCE = 'source'
const PART = 20_000

export interface WaitingDeliveries {
  readonly count: number
  /** With what they are to bring, in the journal. */
  readonly payloads: boolean
  /** Left out: TARGET. */
  readonly target?: string
  /** To so many partners in turn; left out: to one. */
  readonly partners?: number
}

/** What each waiting delivery is to bring. */
export const CONTENT = Buffer.from('UNB+UNOC:3+acme+globex+260101:1200+1')

const MESSAGES = `
insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type, size_bytes, payloads)
select (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(i >> 12 & 4095), 3, '0')
    || '8' || lpad(to_hex(i), 15, '0'))::uuid,
  'outbound', 'dispatched', 'InProgress', '${SOURCE}', 'acme', 'globex-' || i % $5::bigint, 'invoice-' || i || '.edi', 'application/edifact',
  $3, jsonb_build_object('unpacked', jsonb_build_object('size_bytes', $3::bigint, 'stored_at', now(), 'sha256', $4::text))
from generate_series($1::bigint, $2::bigint) i
returning id`

/** Of a message and what belongs to it: all that an acceptance writes. */
const REST = `
with queued as (
  insert into delivery (message_id, target, waiting_since)
  select id, $4, now() from unnest($1::uuid[]) id returning id, message_id
), kept as (
  insert into journal (message_id, stage, bytes) select id, 'unpacked', $2 from unnest($1::uuid[]) id where $3
)
insert into history (message_id, kind, old_status, new_status, delivery_id, target, new_state)
select message_id, kind, old_status, new_status, delivery_id, target, new_state from (
  select message_id, 1 as position, 'status_changed' as kind, null as old_status, 'Received' as new_status,
    null::bigint as delivery_id, null as target, null as new_state from queued
  union all select message_id, 2, 'delivery_changed', null, null, id, $4, 'queued' from queued
  union all select message_id, 3, 'status_changed', 'Received', 'InProgress', null, null, null from queued
) line order by message_id, position`

/** `superuserUrl` names the database of the records. Answers the ids of the messages. */
export async function storeWaiting(superuserUrl: string, waiting: WaitingDeliveries): Promise<string[]> {
  const { count, payloads, target = TARGET, partners = 1 } = waiting
  const ids: string[] = []
  const client = new pg.Client({ connectionString: superuserUrl })
  await client.connect()
  try {
    await client.query('set synchronous_commit = off')
    const sha256 = hash('sha256', CONTENT, 'hex')
    for (let from = 1; from <= count; from += PART) {
      const to = Math.min(count, from + PART - 1)
      const { rows } = await client.query<{ id: string }>(MESSAGES, [
        from,
        to,
        CONTENT.length,
        sha256,
        partners,
      ])
      const stored = rows.map(({ id }) => id)
      await client.query(REST, [stored, CONTENT, payloads, target])
      ids.push(...stored)
    }
    await client.query('select fold_message_changes(1000000)')
    await client.query('vacuum analyze message, delivery, history, journal')
    return ids
  } finally {
    await client.end()
  }
}
