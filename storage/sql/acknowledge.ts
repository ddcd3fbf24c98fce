import { query, type Queryable } from '../postgres/pool.ts'
import type { HistoryKind } from '../exchange/states.ts'

/** A receipt that came by itself, for a delivery that waits for it. */
export interface Acknowledgement {
  readonly messageId: string
  readonly deliveryId: number
  /** Why the receipt makes the delivery fail; null for a positive one. */
  readonly failure: string | null
  /** New facts for the message, by module name. */
  readonly protocols: Readonly<Record<string, unknown>>
  readonly line: { readonly kind: HistoryKind; readonly text: string }
}

/** Ends a delivery by its receipt. False, and nothing is changed, when it does not wait for one (any more). */
export async function acknowledge(on: Queryable, receipt: Acknowledgement): Promise<boolean> {
  const { messageId, deliveryId, failure, protocols, line } = receipt
  const [row] = await query<{ done: boolean }>(
    on,
    'select acknowledge_delivery($1, $2, $3, $4, $5, $6) as done',
    [messageId, deliveryId, failure, protocols, line.kind, line.text],
    'acknowledge',
  )
  return row?.done ?? false
}
