import type { Pool } from 'pg'
import type { Log } from '../../runtime/log.ts'
import { reclaim } from '../sql/claim.ts'
import { announceWaiting } from '../sql/maintain.ts'

const ROUND_MS = 1_000

export interface ExchangeClockOptions {
  readonly pool: Pool
  readonly log: Log
  /** How often a delivery is announced before it is stalled. */
  readonly maxAnnouncements: number
  /** Tells a target, if it runs here, that deliveries wait for it. */
  readonly announce: (target: string, count: number) => void
}

/**
 * One round of the exchange's clock: takes back claims whose lease has ended, and announces what waits and nobody
 * took. It knows only what the database says, so it may end at any time and lose nothing. Answers the milliseconds
 * until the next round.
 */
export async function clockRound({
  pool,
  log,
  maxAnnouncements,
  announce,
}: ExchangeClockOptions): Promise<number> {
  const reclaimed = await reclaim(pool, null)
  if (reclaimed > 0) log.warn({ deliveries: reclaimed }, 'took back claims whose lease had ended')
  for (const { target, waiting } of await announceWaiting(pool, maxAnnouncements)) announce(target, waiting)
  return ROUND_MS
}
