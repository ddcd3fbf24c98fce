import { query, type Queryable } from '../postgres/pool.ts'
import type { Stage } from '../exchange/states.ts'

export interface Redispatched {
  /** In which the message was found. An accepted one is left to its source. */
  readonly stage: Stage
  /** One entry per delivery that waits for its target now; empty when nothing was changed. */
  readonly targets: readonly string[]
}

/**
 * Announces again what no target has taken, and makes deliveries for the routes as they stand now; see the function
 * `redispatch_message`. Null for an unknown message.
 */
export async function redispatch(
  on: Queryable,
  messageId: string,
  requester: string,
): Promise<Redispatched | null> {
  const text = 'select stage, targets from redispatch_message($1, $2)'
  const [row] = await query<Redispatched>(on, text, [messageId, `Requested by ${requester}`])
  return row ?? null
}
