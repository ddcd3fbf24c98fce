import { query, type Queryable } from '../postgres/pool.ts'
import { REDELIVERABLE_STATES, type DeliveryState } from '../exchange/states.ts'

export interface Redelivered {
  /** In which the delivery was found. */
  readonly state: DeliveryState
  readonly target: string
  /** Whether it waits for its target now. */
  readonly requeued: boolean
}

/**
 * Puts a delivery that has ended, or waits for its next attempt, back to queued; see the function `redeliver_delivery`.
 * Null for an unknown message, and for a delivery of another one.
 */
export async function redeliver(
  on: Queryable,
  ids: { readonly messageId: string; readonly deliveryId: string },
  requester: string,
): Promise<Redelivered | null> {
  const [row] = await query<{ state: DeliveryState; target: string }>(
    on,
    'select state, target from redeliver_delivery($1, $2, $3)',
    [ids.messageId, ids.deliveryId, `Requested by ${requester}`],
  )
  return row === undefined
    ? null
    : { ...row, requeued: REDELIVERABLE_STATES.some((state) => state === row.state) }
}
