import type { Pool } from 'pg'
import type { Log } from '../../runtime/log.ts'
import { endNow } from '../../runtime/process-end.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import { takeBack } from '../sql/claim.ts'

export interface DrainOptions {
  /** Ends the API; requests in hand may go on so long. */
  readonly drainApi: (graceMs: number) => Promise<void>
  readonly supervisor: Supervisor
  readonly pool: Pool
  /** As the claims of this node are named. */
  readonly nodeId: string
  readonly log: Log
}

/** From the signal to the end of the process takes at most half a minute. */
const LONGEST_END_MS = 29_000
const API_GRACE_MS = 15_000
/** Actors cut their own work off before. */
const SHUTDOWN_LIMITS = { stopLimitMs: 24_000, endLimitMs: 2_000 }

/**
 * Lets work in hand finish, for a while: what peers send and what they take may be slow without end. What is cut off is
 * refused to who sends it, and its delivery goes back to the queue.
 */
export async function drain({ drainApi, supervisor, pool, nodeId, log }: DrainOptions): Promise<void> {
  setTimeout(() => {
    log.error('Not everything ended in time; what was in hand is taken up again by the next start')
    endNow(0)
  }, LONGEST_END_MS).unref()
  await Promise.all([drainApi(API_GRACE_MS), supervisor.shutdown(SHUTDOWN_LIMITS)])
  // Of threads that had to be ended. Without a database they go back when their leases end.
  const requeued = await takeBack(pool, `${nodeId}/`).catch(() => 0)
  if (requeued > 0) log.warn({ deliveries: requeued }, 'Deliveries in hand went back to the queue')
}
