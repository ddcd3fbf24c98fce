import { query, type Queryable } from '../postgres/pool.ts'
import { BlobBuilder } from '../exchange/blob.ts'
import type { NewStage } from '../exchange/stages.ts'
import type { HistoryKind } from '../exchange/states.ts'

/** How an attempt ended. */
export type Outcome =
  | { readonly state: 'delivered' }
  | { readonly state: 'awaiting_ack'; readonly deadlineSeconds: number }
  | { readonly state: 'failed'; readonly error: string }
  | { readonly state: 'retrying'; readonly error: string; readonly delaySeconds: number }
  | { readonly state: 'queued'; readonly error: string }

export interface Settlement {
  readonly deliveryId: number
  readonly messageId: string
  /** The number that the claim gave. An older one than the record's changes nothing. */
  readonly fencing: number
  readonly outcome: Outcome
  /** New facts for the message, by module name; null leaves them. */
  readonly protocols: Readonly<Record<string, unknown>> | null
  /** A stage that came with the outcome (a receipt), small enough for the journal. */
  readonly stage: NewStage | null
  /** A line for the history that says more than the change of state. */
  readonly line: { readonly kind: HistoryKind; readonly text: string } | null
}

/** Settles claimed deliveries; answers the ids of those whose claim still held. */
export async function settle(on: Queryable, settlements: readonly Settlement[]): Promise<Set<number>> {
  const blob = new BlobBuilder()
  const rows = settlements.map(({ deliveryId, messageId, fencing, outcome, protocols, stage, line }) => ({
    id: deliveryId,
    message_id: messageId,
    fencing,
    state: outcome.state,
    error: 'error' in outcome ? outcome.error : null,
    seconds: secondsOf(outcome),
    protocols,
    payloads:
      stage === null ? null : { [stage.stage]: { size_bytes: stage.size_bytes, sha256: stage.sha256 } },
    stage: stage?.stage ?? null,
    ...(stage?.bytes == null ? { start: null, length: null } : blob.add(stage.bytes)),
    line_kind: line?.kind ?? null,
    line_text: line?.text ?? null,
  }))
  const settled = await query<{ id: number }>(
    on,
    'select unnest(settle_deliveries($1::json, $2::bytea)) as id',
    [JSON.stringify(rows), blob.build()],
    'settle',
  )
  return new Set(settled.map(({ id }) => id))
}

/** How long the state that it ends in may last. */
function secondsOf(outcome: Outcome): number | null {
  if (outcome.state === 'retrying') return outcome.delaySeconds
  return outcome.state === 'awaiting_ack' ? outcome.deadlineSeconds : null
}
