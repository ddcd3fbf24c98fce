import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { Log } from '../../runtime/log.ts'
import { expireReceipts } from '../receipts/receipt-dispatches.ts'
import { announceWaiting, failOverdue, reclaim, stallWaiting, tick } from '../sql/maintain.ts'

const ROUND_MS = 1_000
/** A node that ticks and is silent for so long has died or hangs: another one goes on. */
const RIGHT_SECONDS = 5

export interface ExchangeClockOptions {
  readonly pool: Pool
  readonly log: Log
  /** Identifies this data directory among the nodes. */
  readonly nodeId: string
  /** How often a delivery is announced before it is stalled. */
  readonly maxAnnouncements: number
  /** Tells a target, on whichever node it runs, that deliveries wait for it. */
  readonly announce: (target: string, count: number) => void
}

/**
 * One round of the exchange's clock, on one of the nodes: lets exchange time go on, takes back claims whose lease has
 * ended, fails deliveries whose receipt is overdue, ends what is owed and nobody took, stalls what no target takes, and announces what waits. It knows only
 * what the database says, by the time that is kept there, so it may end at any time and lose nothing. Each step commits
 * by itself and holds nothing afterwards: a node that hangs between them is in nobody's way. Answers the milliseconds
 * until the next round.
 */
export async function clockRound(options: ExchangeClockOptions): Promise<number> {
  const { pool, log, nodeId, maxAnnouncements, announce } = options
  if (!(await tick(pool, nodeId, RIGHT_SECONDS))) return ROUND_MS
  crashPoint('clock.ticked')
  const reclaimed = await reclaim(pool)
  if (reclaimed.size > 0) crashPoint('clock.reclaimed')
  for (const [target, deliveries] of reclaimed) {
    log.warn({ target, deliveries }, 'took back claims whose lease had ended')
    announce(target, deliveries)
  }
  const overdue = await failOverdue(pool)
  if (overdue > 0) crashPoint('clock.overdue-failed')
  if (overdue > 0) log.warn({ deliveries: overdue }, 'no receipt came by its deadline')
  const expired = await expireReceipts(pool)
  if (expired > 0) crashPoint('clock.receipts-expired')
  if (expired > 0) log.warn({ receipts: expired }, 'no partner took receipts that are owed')
  const stalled = await stallWaiting(pool, maxAnnouncements)
  if (stalled > 0) crashPoint('clock.stalled')
  if (stalled > 0) log.warn({ deliveries: stalled }, 'no target took what was announced')
  for (const target of await announceWaiting(pool, maxAnnouncements)) announce(target, 1)
  crashPoint('clock.announced')
  return ROUND_MS
}
