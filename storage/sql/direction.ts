import { query, type Queryable } from '../postgres/pool.ts'
import type { Direction } from '../exchange/states.ts'

/** The two names that a message travels between. */
export interface PartyPair {
  readonly from: string
  readonly to: string
}

/**
 * Whether a message between two names goes out or comes in: one must be an organization and the other a partner. Null
 * where that does not hold. A name may be both; where both readings hold, it is outbound. One answer per pair, in
 * their order.
 */
export async function directions(on: Queryable, pairs: readonly PartyPair[]): Promise<(Direction | null)[]> {
  const rows = await query<{ direction: Direction | null }>(
    on,
    `select case
        when exists (select from organization where name = p."from") and exists (select from partner where name = p."to")
          then 'outbound'
        when exists (select from partner where name = p."from") and exists (select from organization where name = p."to")
          then 'inbound' end as direction
      from unnest($1::text[], $2::text[]) with ordinality as p("from", "to", position)
      order by p.position`,
    [pairs.map(({ from }) => from), pairs.map(({ to }) => to)],
    'directions',
  )
  return rows.map(({ direction }) => direction)
}
