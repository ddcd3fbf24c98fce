import { query, type Queryable } from '../postgres/pool.ts'

/** Rows that one round of the clock looks at: enough for any normal second, and a bound for the others. */
const ANNOUNCE_BATCH = 1000

/** What waits for a target, so that it can be told again. */
export interface Waiting {
  readonly target: string
  readonly waiting: number
}

/** One round of the clock over what no target has taken; see the function `announce_deliveries`. */
export function announceWaiting(on: Queryable, mostAnnouncements: number): Promise<Waiting[]> {
  const text = 'select target, waiting from announce_deliveries($1, $2)'
  return query<Waiting>(on, text, [mostAnnouncements, ANNOUNCE_BATCH], 'announce')
}
