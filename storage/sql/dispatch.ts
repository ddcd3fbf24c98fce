import { query, type Queryable } from '../postgres/pool.ts'
import type { AcceptedMessage } from './accept.ts'

/**
 * Hands over messages that their source has let go of: deliveries for the routes as they stand now, the message's new
 * status and stage, and the history, in one statement. A message that is not `accepted` any more is left alone.
 */
export function dispatch(on: Queryable, ids: readonly string[]): Promise<AcceptedMessage[]> {
  return query<AcceptedMessage>(on, DISPATCH, [ids], 'dispatch')
}

const DISPATCH = `
with chosen as materialized (
  select id, source, from_party, to_party from message
  where id = any ($1::uuid[]) and stage = 'accepted'
  order by id for no key update
), routed as materialized (
  select distinct c.id, r.target_plugin as target
  from chosen c
  join route r on r.source_plugin = c.source and r."from" in (c.from_party, '*') and r."to" in (c.to_party, '*')
), judged as materialized (
  select c.id, case when exists (select from routed r where r.id = c.id) then 'InProgress' else 'NotRouted' end as status
  from chosen c
), queued as (
  insert into delivery (message_id, target, waiting_since)
  select id, target, (select exchange_time()) from routed order by id, target
  returning id, message_id, target
), moved as (
  update message m set status = j.status, updated_at = now(), source_reference = null,
    stage = case j.status when 'InProgress' then 'dispatched' else 'settled' end,
    settled_at = case j.status when 'InProgress' then null else now() end
  from judged j where m.id = j.id
), lines as (
  insert into history (message_id, kind, old_status, new_status, delivery_id, target, new_state)
  select message_id, kind, old_status, new_status, delivery_id, target, new_state from (
    select q.message_id, 1 as position, 'delivery_changed' as kind, null as old_status, null as new_status,
      q.id as delivery_id, q.target, 'queued' as new_state from queued q
    union all
    select j.id, 2, 'status_changed', 'Received', j.status, null, null, null from judged j
  ) line order by message_id, position, delivery_id
)
select j.id, j.status, array(select q.target from queued q where q.message_id = j.id order by q.id) as targets
from judged j`
