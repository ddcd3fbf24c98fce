import type { NewStage } from '../exchange/stages.ts'
import { query, type Queryable } from '../postgres/pool.ts'
import type { ReceiptDispatch } from '../sql/accept.ts'

/** A receipt that was made for a message that is here already, and was taken in without one. */
export interface LateReceipt {
  readonly messageId: string
  /** Whose facts of the message have `receipt` null so far. */
  readonly module: string
  /** What the module keeps of the receipt. */
  readonly facts: object
  /** As it travels, small enough for the journal. */
  readonly stage: NewStage
  /** The instance that sends it, where it travels by itself. */
  readonly receiver: string
  readonly dispatch: ReceiptDispatch | null
}

/** Keeps it with its message, and its order to be sent; false, and nothing is changed, where the message has one by now. */
export async function keepReceipt(on: Queryable, receipt: LateReceipt): Promise<boolean> {
  const { messageId, module, facts, stage, receiver, dispatch } = receipt
  const { size_bytes, sha256, bytes } = stage
  const rows = await query<object>(
    on,
    KEEP,
    [
      messageId,
      module,
      facts,
      { receipt: { size_bytes, sha256 } },
      bytes,
      receiver,
      dispatch?.url ?? null,
      dispatch?.lastsSeconds ?? null,
    ],
    'keep-receipt',
  )
  return rows.length > 0
}

const KEEP = `
with kept as (
  update message m set updated_at = now(), protocols = jsonb_set(m.protocols, array[$2::text, 'receipt'], $3::jsonb),
    payloads = m.payloads || stamped_stages($4::jsonb)
  where m.id = $1::uuid and m.protocols -> $2::text -> 'receipt' = 'null'
  returning m.id
), journaled as (
  insert into journal (message_id, stage, bytes) select id, 'receipt', $5::bytea from kept
), ordered as (
  insert into receipt_dispatch (message_id, receiver, url, next_attempt_at, expires_at)
  select id, $6::text, $7::text, (select exchange_time()),
    (select exchange_time()) + make_interval(secs => $8::double precision)
  from kept where $7::text is not null
)
select id from kept`
