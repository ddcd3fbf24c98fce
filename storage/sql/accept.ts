import { query, type Queryable } from '../postgres/pool.ts'
import { BlobBuilder, type Slice } from '../exchange/blob.ts'
import type { NewStage } from '../exchange/stages.ts'
import type { Direction, Status } from '../exchange/states.ts'

/** A message as a source hands it in. */
export interface NewMessage {
  /** UUID; version 7, so that the index grows at its end. */
  readonly id: string
  readonly direction: Direction
  /** The instance that took it in. */
  readonly source: string
  readonly from: string
  readonly to: string
  readonly fileName: string
  readonly contentType: string
  readonly sizeBytes: number
  readonly stages: readonly NewStage[]
  /** By module name: the facts that the protocol keeps with the message. */
  readonly protocols: Readonly<Record<string, unknown>>
  /** The source's own handle on what it took in, for its recovery. */
  readonly sourceReference: string | null
  /** SHA-256 of what makes a repeat recognisable; null where a repeat is welcome. */
  readonly duplicateKey: Buffer | null
  /** Why the source refuses it; it is then kept without deliveries. */
  readonly refusal: string | null
  /** What the history tells with the acceptance; default nothing. */
  readonly note?: string | null
  /** False while the source still owns the message and will dispatch it later. */
  readonly dispatch: boolean
  /** Only of a message that somebody sends by hand. */
  readonly byHand?: SentByHand
  /** Where its stage `receipt` is to be sent, again and again for so long; default nowhere. */
  readonly receiptDispatch?: ReceiptDispatch | null
}

export interface ReceiptDispatch {
  readonly url: string
  readonly lastsSeconds: number
}

/** It goes to this target, whatever the routes say, now and when it is redispatched. */
export interface SentByHand {
  readonly target: string
  /** Who sent it, as the history tells. */
  readonly sender: string
}

export interface AcceptedMessage {
  readonly id: string
  readonly status: Status
  /** One entry per delivery made. */
  readonly targets: readonly string[]
}

interface JournalRow extends Slice {
  readonly message_id: string
  readonly stage: string
}

/**
 * Stores messages with their small stages, their deliveries for the routes as they stand now, and their history, all
 * in one statement and so in one commit. A message whose duplicate key is stored already is left out of the answer
 * and of the database.
 *
 * One statement for many messages: the commit, and the flush to disk with it, is what an acceptance costs.
 */
export async function accept(on: Queryable, messages: readonly NewMessage[]): Promise<AcceptedMessage[]> {
  const blob = new BlobBuilder()
  const journal: JournalRow[] = []
  for (const { id, stages } of messages) {
    for (const { stage, bytes } of stages) {
      if (bytes !== null) journal.push({ message_id: id, stage, ...blob.add(bytes) })
    }
  }
  const values = [JSON.stringify(messages.map(toRow)), JSON.stringify(journal), blob.build()]
  // Few partners want receipts by themselves: the others do not pay for them.
  if (messages.every(({ receiptDispatch }) => receiptDispatch == null))
    return query<AcceptedMessage>(on, ACCEPT, values, 'accept')
  return query<AcceptedMessage>(on, ACCEPT_AND_ORDER_RECEIPTS, values, 'accept-and-order-receipts')
}

function toRow(message: NewMessage) {
  return {
    id: message.id,
    direction: message.direction,
    source: message.source,
    from_party: message.from,
    to_party: message.to,
    file_name: message.fileName,
    content_type: message.contentType,
    size_bytes: message.sizeBytes,
    payloads: Object.fromEntries(
      message.stages.map(({ stage, size_bytes, sha256 }) => [stage, { size_bytes, sha256 }]),
    ),
    protocols: message.protocols,
    source_reference: message.sourceReference,
    duplicate_key: message.duplicateKey?.toString('hex') ?? null,
    refusal: message.refusal,
    dispatch: message.dispatch,
    chosen_target: message.byHand?.target ?? null,
    note: noteOf(message),
    receipt_url: message.receiptDispatch?.url,
    receipt_seconds: message.receiptDispatch?.lastsSeconds,
  }
}

function noteOf({ refusal, note, byHand }: NewMessage): string | null {
  return refusal ?? note ?? (byHand === undefined ? null : `Sent by ${byHand.sender}`)
}

const STORE = `
with input as materialized (
  select * from json_to_recordset($1::json) as i(
    id uuid, direction text, source text, from_party text, to_party text, file_name text, content_type text,
    size_bytes bigint, payloads jsonb, protocols jsonb, source_reference text, duplicate_key text, refusal text,
    dispatch boolean, chosen_target text, note text, receipt_url text, receipt_seconds double precision)
), routed as materialized (
  select distinct i.id, r.target_plugin as target
  from input i
  join route r on r.source_plugin = i.source and r."from" in (i.from_party, '*') and r."to" in (i.to_party, '*')
  where i.dispatch and i.refusal is null and i.chosen_target is null
  union all
  select id, chosen_target from input where chosen_target is not null
), judged as materialized (
  select i.*, case
    when i.refusal is not null then 'Refused'
    when not i.dispatch then 'Received'
    when exists (select from routed r where r.id = i.id) then 'InProgress'
    else 'NotRouted' end as status
  from input i
), stored as (
  insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type, size_bytes,
    payloads, protocols, source_reference, duplicate_key, settled_at, routed)
  select id, direction,
    case status when 'Received' then 'accepted' when 'InProgress' then 'dispatched' else 'settled' end,
    status, source, from_party, to_party, file_name, content_type, size_bytes,
    stamped_stages(payloads), protocols, source_reference, decode(duplicate_key, 'hex'),
    case when status in ('Refused', 'NotRouted') then now() end, chosen_target is null
  from judged
  order by duplicate_key, id -- one order for all, so that two batches with the same repeats cannot wait for each other
  on conflict (duplicate_key) do nothing
  returning id
), queued as (
  insert into delivery (message_id, target, waiting_since)
  select r.id, r.target, (select exchange_time())
  from routed r join stored s on s.id = r.id
  order by r.id, r.target
  returning id, message_id, target
), journaled as (
  insert into journal (message_id, stage, bytes)
  select j.message_id, j.stage, substring($3::bytea from j.start for j.length)
  from json_to_recordset($2::json) as j(message_id uuid, stage text, start integer, length integer)
  join stored s on s.id = j.message_id
), lines as (
  insert into history (message_id, kind, old_status, new_status, delivery_id, target, new_state, text)
  select message_id, kind, old_status, new_status, delivery_id, target, new_state, text from (
    select j.id as message_id, 1 as position, 'status_changed' as kind, null as old_status,
      case when j.status = 'Refused' then 'Refused' else 'Received' end as new_status,
      null::bigint as delivery_id, null as target, null as new_state, j.note as text
    from judged j join stored s on s.id = j.id
    union all
    select q.message_id, 2, 'delivery_changed', null, null, q.id, q.target, 'queued', null from queued q
    union all
    select j.id, 3, 'status_changed', 'Received', j.status, null, null, null, null
    from judged j join stored s on s.id = j.id where j.status in ('InProgress', 'NotRouted')
  ) line order by message_id, position, delivery_id
)`

const ANSWER = `
select j.id, j.status, array(select q.target from queued q where q.message_id = j.id order by q.id) as targets
from judged j join stored s on s.id = j.id`

const ACCEPT = STORE + ANSWER

const ACCEPT_AND_ORDER_RECEIPTS = `${STORE}, ordered as (
  insert into receipt_dispatch (message_id, receiver, url, next_attempt_at, expires_at)
  select j.id, j.source, j.receipt_url, (select exchange_time()), (select exchange_time()) + make_interval(secs => j.receipt_seconds)
  from judged j join stored s on s.id = j.id where j.receipt_url is not null
)${ANSWER}`
