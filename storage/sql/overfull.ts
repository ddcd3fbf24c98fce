import { query, type Queryable } from '../postgres/pool.ts'

/** A target behind which the queue is too long. */
export interface Overfull {
  readonly target: string
  /** The sources whose routes lead to it. */
  readonly sources: readonly string[]
  /** So many deliveries wait for it, or more. */
  readonly limit: number
}

/**
 * The targets for which so many deliveries wait, or still nearly so many when they were overfull before. Nobody counts:
 * it looks whether there is a last one at that place of the index, and reads no further.
 *
 * @param before the targets that were overfull when it was asked last.
 */
export async function overfullTargets(
  on: Queryable,
  limit: number,
  before: readonly string[],
): Promise<Overfull[]> {
  const resumeAt = Math.ceil(limit * RESUME_BELOW)
  const rows = await query<Omit<Overfull, 'limit'>>(on, OVERFULL, [limit, before, resumeAt], 'overfull')
  return rows.map(({ target, sources }) => ({ target, sources, limit }))
}

/** A source that was held back goes on when so much of the limit is left, not with each single place that gets free. */
const RESUME_BELOW = 0.9

/** Queued ones and those that are to be tried again are two indexes: what one lacks, the other may have. */
const OVERFULL = `
select p.name as target,
  coalesce((select array_agg(distinct r.source_plugin) from route r where r.target_plugin = p.name), '{}') as sources
from plugin_configuration p
cross join lateral (
  select case when p.name = any ($2::text[]) then $3::bigint else $1::bigint end as most) l
where p.role = 'target' and (
  select count(*) from (
    (select from delivery d where d.target = p.name and d.state = 'queued' limit l.most)
    union all
    (select from delivery d where d.target = p.name and d.state = 'retrying' limit l.most)
  ) waiting) >= l.most
order by p.name`
