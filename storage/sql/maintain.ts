import { query, type Queryable } from '../postgres/pool.ts'

/**
 * The steps of the exchange's clock. Each is a statement of its own, bounded by a number of deliveries, and leaves
 * nothing half done: a clock may end between any two of them.
 */

/** Deliveries that one step moves at most: enough for any normal second, and a bound for the others. */
const BATCH = 500

/**
 * Ticks if this node may, and answers whether it did. One node ticks; when it is silent for `rightSeconds`, another one
 * does. See the function `tick_exchange`.
 */
export async function tick(on: Queryable, node: string, rightSeconds: number): Promise<boolean> {
  const text = 'select tick_exchange($1, make_interval(secs => $2)) as ticked'
  const [row] = await query<{ ticked: boolean }>(on, text, [node, rightSeconds], 'tick')
  return row?.ticked ?? false
}

/** Puts claims back whose lease has ended; answers their targets, and how many each has. */
export async function reclaim(on: Queryable): Promise<ReadonlyMap<string, number>> {
  const text = 'select target, deliveries from reclaim_deliveries($1)'
  const rows = await query<{ target: string; deliveries: number }>(on, text, [BATCH], 'reclaim')
  return new Map(rows.map(({ target, deliveries }) => [target, deliveries]))
}

/** Stalls what no target has taken while it was announced so often; answers how many. */
export async function stallWaiting(on: Queryable, announcements: number): Promise<number> {
  const text = 'select stall_deliveries($1, $2) as count'
  const [row] = await query<{ count: number }>(on, text, [announcements, BATCH], 'stall')
  return row?.count ?? 0
}

/** Fails deliveries whose receipt is overdue; answers how many. */
export async function failOverdue(on: Queryable): Promise<number> {
  const text = 'select fail_overdue_receipts($1) as count'
  const [row] = await query<{ count: number }>(on, text, [BATCH], 'fail-overdue')
  return row?.count ?? 0
}

/** The targets to tell, since the last call, of what waits for them. */
export async function announceWaiting(on: Queryable, announcements: number): Promise<string[]> {
  const text = 'select target from announce_deliveries($1)'
  const rows = await query<{ target: string }>(on, text, [announcements], 'announce')
  return rows.map(({ target }) => target)
}
