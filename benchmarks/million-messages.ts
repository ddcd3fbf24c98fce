import pg from 'pg'

/** Messages as a partner network of some size makes them in a quarter of a year, stored without any program's help. */

const STATUSES = `case
  when i > $1 - 20 then 'InProgress' when i > $1 - 100 then 'Retrying' when i % 1009 = 0 then 'Error'
  when i % 10007 = 0 then 'Stalled' when i % 503 = 0 then 'Refused' when i % 2003 = 0 then 'NotRouted'
  else 'Delivered' end`

/** A few partners get most of it: of 200, the first fifty have two thirds. */
const PARTNER = `'partner-' || floor(200 * power(mod(hashint8(i)::bigint & 1048575, 1048576) / 1048576.0, 3))`

const MESSAGES = `
insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type, size_bytes,
  payloads, protocols, created_at, updated_at, settled_at)
select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(i & 4095), 3, '0')
    || '8' || lpad(to_hex(i), 15, '0'))::uuid,
  case when outbound then 'outbound' else 'inbound' end,
  case when status in ('InProgress', 'Retrying') then 'dispatched' else 'settled' end, status,
  case when outbound then 'poller' else 'receiver' end,
  case when outbound then organization else partner end, case when outbound then partner else organization end,
  'invoice-' || i || '.edi', 'application/edifact', 10240,
  jsonb_build_object(
    'unpacked', jsonb_build_object('size_bytes', 10240, 'stored_at', at, 'sha256', repeat('ab', 32)),
    'received', jsonb_build_object('size_bytes', 9000, 'stored_at', at, 'sha256', repeat('cd', 32)),
    'receipt', jsonb_build_object('size_bytes', 2000, 'stored_at', at, 'sha256', repeat('ef', 32))),
  jsonb_build_object('as2', jsonb_build_object('message_id', '<' || i || '@waybill>', 'as2_from', 'ACME',
    'as2_to', 'GLOBEX', 'subject', 'Business message', 'signed', true, 'encrypted', true, 'mic', repeat('x', 44))),
  at, at, case when status in ('InProgress', 'Retrying') then null else at end
from (
  select i, i % 2 = 0 as outbound, ${PARTNER} as partner, 'acme-' || i / 2 % 3 as organization, ${STATUSES} as status,
    now() - ($1 - i) * (interval '90 days' / $1) as at
  from generate_series($2::bigint, $3::bigint) i
) made`

const DELIVERIES = `
insert into delivery (message_id, target, state, attempts, next_attempt_at, waiting_since, last_error, created_at, finished_at)
select id, case direction when 'outbound' then 'sender' else 'writer' end, state, 1,
  case state when 'retrying' then now() + interval '1 day' end, case state when 'queued' then now() end,
  case when state in ('failed', 'retrying') then 'The partner does not answer' end, created_at,
  case when state in ('queued', 'retrying') then null else created_at end
from (
  select m.*, case status when 'InProgress' then 'queued' when 'Retrying' then 'retrying' when 'Error' then 'failed'
    when 'Stalled' then 'stalled' else 'delivered' end as state
  from message m where created_at >= $1 and status not in ('Refused', 'NotRouted')
) d`

const HISTORY = `
insert into history (message_id, created_at, kind, old_status, new_status, target, delivery_id, old_state, new_state)
select d.message_id, d.created_at, line.kind, line.old_status, line.new_status,
  case line.kind when 'delivery_changed' then d.target end, case line.kind when 'delivery_changed' then d.id end,
  line.old_state, line.new_state
from delivery d cross join (values
  (1, 'status_changed', null, 'Received', null, null),
  (2, 'delivery_changed', null, null, null, 'queued'),
  (3, 'status_changed', 'Received', 'InProgress', null, null),
  (4, 'delivery_changed', null, null, 'queued', 'delivering'),
  (5, 'delivery_changed', null, null, 'delivering', 'delivered'),
  (6, 'status_changed', 'InProgress', 'Delivered', null, null)
) line (position, kind, old_status, new_status, old_state, new_state)
where d.created_at >= $1
order by d.id, line.position`

const PART = 100_000

/** `superuserUrl` names the database of the records. What it stores passes the triggers that count messages. */
export async function storeMessages(superuserUrl: string, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: superuserUrl })
  await client.connect()
  try {
    await client.query('set synchronous_commit = off')
    for (let from = 1; from <= count; from += PART) {
      await client.query(MESSAGES, [count, from, Math.min(count, from + PART - 1)])
    }
    // Their references are right as they are made: looking each one up would take most of the time.
    await client.query('set session_replication_role = replica')
    const begin = '-infinity'
    await client.query(DELIVERIES, [begin])
    await client.query(HISTORY, [begin])
    await client.query('vacuum analyze message, delivery, history')
  } finally {
    await client.end()
  }
}
