import { Migration } from '@mikro-orm/migrations'

/**
 * The moves of deliveries that take more than one statement. They are functions so that each is one round trip, and
 * because every statement inside one sees what was committed meanwhile: a message is locked first, its deliveries are
 * moved, and then its status is derived from all of them. The lock is FOR NO KEY UPDATE, which the foreign keys of
 * deliveries and history do not wait for.
 *
 * Waits and deadlines are in exchange time, and some columns are made by 008 and 012; see there.
 */
export class DeliveryFunctions extends Migration {
  override up(): void {
    for (const sql of [STAMPED_STAGES, ANNOUNCEMENT_WAIT, REFRESH, CLAIM, SETTLE, REQUEUE, RECLAIM])
      this.addSql(sql)
  }
}

const STAMPED_STAGES = `
create function stamped_stages(stages jsonb) returns jsonb stable language sql
return (select coalesce(jsonb_object_agg(key, value || jsonb_build_object('stored_at', now())), '{}') from jsonb_each(stages));`

const ANNOUNCEMENT_WAIT = `
-- 10 s, 40 s, 160 s, then 10 minutes: how long the announcement with this number is given before the next.
create function announcement_wait(announcement integer) returns interval immutable parallel safe language sql
return least(600, 10 * 4 ^ (least(announcement, 10) - 1)) * interval '1 second';`

const REFRESH = `
-- Derives status and stage of messages from their deliveries. The caller holds the locks on the messages.
create function refresh_messages(ids uuid[]) returns void language sql as $$
  with derived as (
    select m.id, m.status as old_status, status_of(array_remove(array_agg(d.state), null)) as new_status
    from message m left join delivery d on d.message_id = m.id
    where m.id = any (ids) and m.stage <> 'accepted' and m.status <> 'Refused'
    group by m.id
  ), changed as (
    update message m set status = x.new_status, updated_at = now(),
      stage = case when x.new_status in ('InProgress', 'Retrying', 'AwaitingReceipt') then 'dispatched' else 'settled' end,
      settled_at = case when x.new_status in ('InProgress', 'Retrying', 'AwaitingReceipt') then null else now() end
    from derived x where m.id = x.id and x.old_status <> x.new_status
    returning m.id, x.old_status, x.new_status
  )
  insert into history (message_id, kind, old_status, new_status)
  select id, 'status_changed', old_status, new_status from changed order by id
$$;`

const CLAIM = `
-- Claims and answers what the work needs. The answer is read after the claim, by a statement of its own: the caller's
-- statement began before and would not see a message that was committed in between.
create function claim_deliveries(claim_target text, claim_limit integer, claim_owner text, lease_seconds integer)
returns table (
  id bigint, fencing bigint, attempts integer, message_id uuid, direction text, from_party text, to_party text,
  file_name text, content_type text, size_bytes bigint, payloads jsonb, protocols jsonb, message_created_at timestamptz,
  unpacked bytea
) language plpgsql as $$
#variable_conflict use_column
declare
  the_time timestamptz := exchange_time();
  lease_end timestamptz := the_time + lease_seconds * interval '1 second';
  retry_ids bigint[] := '{}';
  retry_messages uuid[] := '{}';
  new_ids bigint[] := '{}';
begin
  -- A retry changes its message's status, so the message is locked with it; what is locked by others is left for now.
  with due as (
    select d.id from delivery d join message m on m.id = d.message_id
    where d.target = claim_target and d.state = 'retrying' and d.next_attempt_at <= the_time
    order by d.next_attempt_at limit claim_limit
    for no key update of d, m skip locked
  ), claimed as (
    update delivery d set state = 'delivering', attempts = attempts + 1, fencing = fencing + 1, next_attempt_at = null,
      lease_owner = claim_owner, lease_until = lease_end, updated_at = now()
    from due where d.id = due.id
    returning d.id, d.message_id, d.target
  ), lines as (
    insert into history (message_id, kind, delivery_id, target, old_state, new_state)
    select message_id, 'delivery_changed', id, target, 'retrying', 'delivering' from claimed order by id
  )
  select coalesce(array_agg(claimed.id), '{}'), array_agg(claimed.message_id) into retry_ids, retry_messages from claimed;
  if retry_messages is not null then perform refresh_messages(retry_messages); end if;

  -- What was cut off twice may be what cuts its target off: it is taken one at a time, so that it is known which it is.
  with suspect as materialized (
    select d.id from delivery d
    where d.target = claim_target and d.state = 'queued' and d.cut_offs >= 2 and cardinality(retry_ids) < claim_limit
      and not exists (
        select from delivery u where u.target = d.target and u.state = 'delivering' and u.cut_offs >= 2)
    order by d.id + 0 limit 1
    for no key update skip locked
  ), waiting as materialized (
    select d.id from delivery d
    where d.target = claim_target and d.state = 'queued' and d.cut_offs < 2
    order by d.id + 0 limit claim_limit - cardinality(retry_ids) - (select count(*) from suspect)
    for no key update skip locked
  ), claimed as (
    update delivery d set state = 'delivering', attempts = attempts + 1, fencing = fencing + 1, waiting_since = null,
      lease_owner = claim_owner, lease_until = lease_end, updated_at = now()
    where d.id = any (array(select id from suspect union all select id from waiting))
    returning d.id, d.message_id, d.target
  ), lines as (
    insert into history (message_id, kind, delivery_id, target, old_state, new_state)
    select message_id, 'delivery_changed', id, target, 'queued', 'delivering' from claimed order by id
  )
  select coalesce(array_agg(claimed.id), '{}') into new_ids from claimed;

  return query
  select d.id, d.fencing, d.attempts, m.id, m.direction, m.from_party, m.to_party, m.file_name, m.content_type,
    m.size_bytes, m.payloads, m.protocols, m.created_at, j.bytes
  from delivery d
  join message m on m.id = d.message_id
  left join journal j on j.message_id = m.id and j.stage = 'unpacked'
  where d.id = any (retry_ids || new_ids)
  order by d.id;
end $$;`

const SETTLE = `
-- Outcomes of attempts, at most one a message. Each carries the fencing number of its claim: one that lost its claim
-- changes nothing. Where a receipt came before the settlement, the partner's word counts, and nothing of the outcome.
-- Status and facts of a message change in one update: its row is wide, and every update copies it. An attempt without a
-- genuine receipt leaves the one that the message has, see 012.
create function settle_deliveries(outcomes json, stage_bytes bytea) returns bigint[] language plpgsql as $$
declare
  the_time timestamptz := exchange_time();
  claimed_ids bigint[] := array(select o.id from json_to_recordset(outcomes) as o(id bigint));
  settled_ids bigint[];
  decided_ids bigint[];
  failed_messages uuid[];
  -- Were sent before, have a genuine receipt, and get none by this attempt.
  keeping uuid[];
begin
  select coalesce(array_agg(m.id) filter (where m.direction = 'outbound' and tells_receipt(m.protocols)), '{}')
  into keeping from (
    select id, direction, protocols from message
    where id = any (array(select o.message_id from json_to_recordset(outcomes) as o(message_id uuid)))
    order by id for no key update
  ) m;
  if keeping <> '{}' then
    keeping := array(select o.message_id from json_to_recordset(outcomes) as o(message_id uuid, protocols jsonb)
      where o.message_id = any (keeping) and not tells_receipt(o.protocols));
  end if;

  with outcome as materialized (
    select * from json_to_recordset(outcomes) as o(
      id bigint, fencing bigint, state text, error text, seconds double precision,
      stage text, start integer, length integer, line_kind text, line_text text)
  ), settled as (
    update delivery d set state = coalesce(d.receipt_verdict, o.state),
      lease_owner = null, lease_until = null, updated_at = now(),
      last_error = case when d.receipt_verdict is null then o.error else d.receipt_failure end,
      next_attempt_at = case coalesce(d.receipt_verdict, o.state)
        when 'retrying' then the_time + make_interval(secs => o.seconds) end,
      receipt_due_at = case coalesce(d.receipt_verdict, o.state)
        when 'awaiting_ack' then the_time + make_interval(secs => o.seconds) end,
      waiting_since = case coalesce(d.receipt_verdict, o.state) when 'queued' then the_time end,
      cut_offs = case coalesce(d.receipt_verdict, o.state) when 'queued' then d.cut_offs else 0 end,
      finished_at = case when coalesce(d.receipt_verdict, o.state) in ('delivered', 'failed') then now() end
    from outcome o
    -- Only what is being delivered has an owner. Asked for the state, PostgreSQL would look through all that has it; without
    -- the array, which it takes for short, it would merge the outcomes with all deliveries while those are some thousands.
    where d.id = any (claimed_ids) and d.id = o.id and d.fencing = o.fencing and d.lease_owner is not null
    returning d.id, d.message_id, d.target, d.state, d.last_error, d.receipt_verdict is not null as decided
  ), journaled as (
    insert into journal (message_id, stage, bytes)
    select s.message_id, o.stage, substring(stage_bytes from o.start for o.length)
    from settled s join outcome o on o.id = s.id
    where o.start is not null and not s.decided and not (o.stage = 'receipt' and s.message_id = any (keeping))
    on conflict (message_id, stage) do update set bytes = excluded.bytes, created_at = excluded.created_at
  ), lines as (
    insert into history (message_id, kind, delivery_id, target, old_state, new_state, text)
    select message_id, kind, id, target, old_state, new_state, text from (
      select s.message_id, 1 as position, o.line_kind as kind, s.id, s.target, null as old_state, null as new_state, o.line_text as text
      from settled s join outcome o on o.id = s.id where o.line_kind is not null and not s.decided
      union all
      select s.message_id, 2, 'delivery_changed', s.id, s.target, 'delivering', s.state, s.last_error from settled s
    ) line order by message_id, position, id
  )
  select coalesce(array_agg(s.id), '{}'), coalesce(array_agg(s.id) filter (where s.decided), '{}'),
    array_agg(s.message_id) filter (where s.state = 'failed' and not s.decided)
  into settled_ids, decided_ids, failed_messages from settled s;

  with fact as (
    select message_id, case when o.id <> all (decided_ids) then protocols end as protocols,
      case when o.id <> all (decided_ids) then payloads end as payloads
    from json_to_recordset(outcomes) as o(id bigint, message_id uuid, protocols jsonb, payloads jsonb)
    where o.id = any (settled_ids)
  ), derived as (
    select d.message_id, status_of(array_agg(d.state)) as status
    from delivery d where d.message_id = any (array(select f.message_id from fact f)) group by d.message_id
  ), changed as (
    update message m set status = x.status, updated_at = now(),
      stage = case when x.status in ('InProgress', 'Retrying', 'AwaitingReceipt') then 'dispatched' else 'settled' end,
      settled_at = case when x.status in ('InProgress', 'Retrying', 'AwaitingReceipt') then null else now() end,
      protocols = case when m.id = any (keeping) then with_attempt(m.protocols, coalesce(f.protocols, '{}'))
        else m.protocols || coalesce(f.protocols, '{}') end,
      payloads = case when f.payloads is null or m.id = any (keeping) and f.payloads ? 'receipt' then m.payloads
        else m.payloads || stamped_stages(f.payloads) end
    from fact f join derived x on x.message_id = f.message_id
    join message before on before.id = f.message_id
    where m.id = f.message_id and (before.status <> x.status or f.protocols is not null or f.payloads is not null)
    returning m.id, before.status as old_status, m.status as new_status
  )
  insert into history (message_id, kind, old_status, new_status)
  select id, 'status_changed', old_status, new_status from changed where old_status <> new_status order by id;

  -- What has failed for good waits for no receipt. That which we owe for a message that came in is another matter.
  if failed_messages is not null then
    perform move_receipt(m.id, 'pending', 'overdue') from message m
    where m.id = any (failed_messages) and m.direction = 'outbound'
      and exists (select from jsonb_each(m.protocols) where value -> 'receipt' ->> 'state' = 'pending')
      and not exists (select from delivery d
        where d.message_id = m.id and d.state in ('queued', 'delivering', 'retrying', 'awaiting_ack'));
  end if;
  return settled_ids;
end $$;`

const REQUEUE = `
-- Claims that were cut off go back to queued. What is cut off again and again may be the cause: it fails after five times
-- in a row that its instance broke down alone (so that this one goes on), and after twenty of any other kind, as when a
-- whole process was killed. The caller holds the locks on messages and deliveries, and names the run of the process whose
-- instance broke down, or null.
create function requeue_deliveries(ids bigint[], own_run text) returns table (target text, deliveries bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  the_time timestamptz := exchange_time();
  hopeless bigint[];
begin
  select coalesce(array_agg(d.id), '{}') into hopeless from delivery d
  where d.id = any (ids) and d.cut_offs + 1 >= case when starts_with(d.lease_owner, own_run) then 5 else 20 end;
  if hopeless <> '{}' then
    perform end_deliveries(hopeless, 'failed', 'The attempt was cut off, as those before it were');
  end if;
  return query with requeued as (
    update delivery d set state = 'queued', lease_owner = null, lease_until = null, updated_at = now(),
      waiting_since = the_time, cut_offs = d.cut_offs + 1, last_error = 'The attempt was cut off'
    where d.id = any (ids) and d.id <> all (hopeless)
    returning d.id, d.message_id, d.target
  ), lines as (
    insert into history (message_id, kind, delivery_id, target, old_state, new_state, text)
    select message_id, 'delivery_changed', id, target, 'delivering', 'queued', 'The attempt was cut off'
    from requeued order by id
  )
  select r.target, count(*) from requeued r group by r.target;
end $$;`

const RECLAIM = `
-- Takes back claims whose lease has ended. Whoever is about to settle one is not waited for.
create function reclaim_deliveries(batch integer) returns table (target text, deliveries bigint) language plpgsql as $$
#variable_conflict use_column
declare
  cut_off bigint[];
begin
  select array_agg(c.id) into cut_off from (
    select d.id from delivery d join message m on m.id = d.message_id
    where d.state = 'delivering' and d.lease_until < exchange_time()
    order by d.message_id, d.id limit batch
    for no key update of m, d skip locked
  ) c;
  if cut_off is not null then return query select * from requeue_deliveries(cut_off, null); end if;
end $$;

-- Takes back the claims of owners that are gone: whose names begin so. Those that go on with the present run of the
-- process, or null, broke down alone.
create function take_back_deliveries(owner_prefix text, run text)
returns table (target text, deliveries bigint) language plpgsql as $$
#variable_conflict use_column
declare
  cut_off bigint[];
begin
  select array_agg(c.id) into cut_off from (
    select d.id from delivery d join message m on m.id = d.message_id
    where d.state = 'delivering' and starts_with(d.lease_owner, owner_prefix)
    order by d.message_id, d.id
    for no key update of m, d
  ) c;
  if cut_off is not null then
    return query select * from requeue_deliveries(cut_off, owner_prefix || run || '/');
  end if;
end $$;`
