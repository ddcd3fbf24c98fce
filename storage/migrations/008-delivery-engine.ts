import { Migration } from '@mikro-orm/migrations'

/**
 * What the delivery engine decides by time, and by nothing but this: the exchange's own time, the waits of what no target
 * takes, the deadlines of receipts, the end of what cuts its target off again and again, and the guards of all of it.
 *
 * **Exchange time.** Every wait of the exchange (a lease, the wait before a retry, the deadline of a receipt, the wait for
 * a target) is told in exchange time. It is the server's time as long as that goes on evenly. One node at a time ticks it
 * each second; from one tick to the next it advances by 15 seconds at most and never goes back, whatever the server's
 * clock does.
 * So when the date is changed, the database fails over to a server with another date, the machine was suspended, or no
 * process ran for a night, then all waits go on where they stood: no lease ends early, no retry comes before its time, no
 * receipt is overdue too soon, and nothing stalls because nobody was there to take it. The node's own clock says nothing
 * at all.
 *
 * **Alerts.** Every end of a delivery, and every refusal, is a line of the history, written in the transaction that ends
 * it. What is to be told to somebody is taken from there; see 014.
 *
 * The moves themselves are functions of 002 and 004; they name columns that are made here, which PostgreSQL looks up when
 * they run.
 */
export class DeliveryEngine extends Migration {
  override up(): void {
    const watch = [STALL_WAIT, END, STALL, ANNOUNCE, OVERDUE]
    for (const sql of [TIME, TICK, COLUMNS, INDEXES, GUARDS, ...watch]) this.addSql(sql)
  }
}

const TIME = `
create table exchange_clock (
  only_record  boolean primary key default true check (only_record),
  -- The node that ticks, and until when it has the right to, by the server's clock.
  holder       text,
  held_until   timestamptz,
  -- The exchange time of the last tick; null before the first, when exchange time is the server's.
  ticked_at    timestamptz,
  -- Exchange time less the server's. Without days, which are not equally long everywhere.
  shift        interval not null default '0' check (extract(day from shift) = 0 and extract(month from shift) = 0),
  -- Up to which exchange time announcements were made.
  announced_at timestamptz,
  check ((holder is null) = (held_until is null))
) with (fillfactor = 20);
insert into exchange_clock default values;

-- PL/pgSQL keeps its plan: a call takes microseconds.
create function exchange_time() returns timestamptz stable language plpgsql as $$
begin
  return (
    select case when ticked_at is null then now()
      else greatest(ticked_at, least(now() + shift, ticked_at + interval '15 seconds')) end
    from exchange_clock);
end $$;`

const TICK = `
-- Ticks if this node may: nobody else has the right to, or whoever had it is silent for that long. A right that would
-- last longer than rights do was given before the server's clock went back. Nobody waits for a lock here.
create function tick_exchange(node text, right_lasts interval) returns boolean language plpgsql as $$
declare
  found_clock exchange_clock;
  reached     timestamptz;
begin
  if exists (
    select from exchange_clock where holder <> node
      and held_until > clock_timestamp() and held_until <= clock_timestamp() + right_lasts
  ) then return false; end if;
  select * into found_clock from exchange_clock
  where not coalesce(holder <> node
    and held_until > clock_timestamp() and held_until <= clock_timestamp() + right_lasts, false)
  for no key update skip locked;
  if not found then return false; end if;
  reached := exchange_time();
  update exchange_clock set holder = node, held_until = clock_timestamp() + right_lasts, ticked_at = reached,
    shift = case when reached = now() + shift then shift else make_interval(secs => extract(epoch from reached - now())) end;
  return true;
end $$;`

const COLUMNS = `
-- Since when a queued delivery waits for its target, in exchange time.
alter table delivery rename column announce_at to waiting_since;
alter table delivery drop column announcements;
-- By when the receipt must have come, in exchange time.
alter table delivery add column receipt_due_at timestamptz;
-- How often in a row an attempt was cut off.
alter table delivery add column cut_offs integer not null default 0 check (cut_offs >= 0);
update delivery set receipt_due_at = now() + interval '24 hours' where state = 'awaiting_ack';
update delivery set waiting_since = least(waiting_since, now()) where state = 'queued';
alter table delivery add check ((state = 'awaiting_ack') = (receipt_due_at is not null));

-- When a target was last seen at work, in exchange time.
create table target_work (
  target    text primary key,
  worked_at timestamptz not null
);`

const INDEXES = `
drop index delivery_queued, delivery_announce, delivery_lease;
-- What was cut off twice waits apart: of those, a target works on one at a time. The order is by an expression, which no
-- other index has: where most deliveries are of one target, PostgreSQL would else walk along the primary key, past all
-- that have ended.
create index delivery_queued on delivery (target, (id + 0)) where state = 'queued' and cut_offs < 2;
create index delivery_suspect on delivery (target, (id + 0)) where state = 'queued' and cut_offs >= 2;
create index delivery_waiting on delivery (target, waiting_since) where state = 'queued';
create index delivery_under_way on delivery (target) where state = 'delivering';
create index delivery_receipt_due on delivery (receipt_due_at) where state = 'awaiting_ack';
-- Every delivery leaves a dead entry at the head of its queue, however many wait behind it.
alter table delivery set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, vacuum_index_cleanup = on);`

const GUARDS = `
-- A message moves as its deliveries do: it is refused at once or never, and once routed it stays so.
create function guard_message_move() returns trigger language plpgsql as $$
begin
  if (case
    when old.status = 'Received' then new.status in ('InProgress', 'NotRouted')
    when old.status in ('NotRouted', 'Delivered', 'Error', 'Stalled') then new.status = 'InProgress'
    when old.status = 'Refused' then false
    else new.status not in ('Received', 'NotRouted', 'Refused') end)
  then return new; end if;
  raise exception 'message %: no move from % to %', old.id, old.status, new.status using errcode = 'check_violation';
end $$;
create trigger message_move before update of status on message
  for each row when (old.status is distinct from new.status) execute function guard_message_move();`

const STALL_WAIT = `
-- How long what is announced so often waits in all.
create function stall_wait(announcements integer) returns interval immutable parallel safe language sql
return (select sum(announcement_wait(n)) from generate_series(1, announcements) n);

create function wait_in_words(wait interval) returns text immutable parallel safe language sql
return case when wait < interval '2 minutes' then extract(epoch from wait)::integer || ' seconds'
  else floor(extract(epoch from wait) / 60) || ' minutes' end;`

const END = `
-- Ends deliveries whose messages the caller has locked. Settlements end theirs by themselves.
create function end_deliveries(ids bigint[], ended text, reason text) returns void language plpgsql as $$
begin
  with before as materialized (
    select id, state from delivery where id = any (ids)
  ), moved as (
    update delivery d set state = ended, last_error = reason, lease_owner = null, lease_until = null, waiting_since = null,
      receipt_due_at = null, finished_at = now(), updated_at = now()
    from before b where d.id = b.id
    returning d.id, d.message_id, d.target, b.state as old_state
  )
  insert into history (message_id, kind, delivery_id, target, old_state, new_state, text)
  select message_id, 'delivery_changed', id, target, old_state, ended, reason from moved order by id;
  perform refresh_messages(array(select message_id from delivery where id = any (ids)));
end $$;`

const STALL = `
-- Notes which targets work, and stalls what has waited for a target that does not: as long as all announcements take,
-- counted from when it was queued or its target was last at work. Answers how many.
create function stall_deliveries(announcements integer, batch integer) returns integer language plpgsql as $$
declare
  the_time timestamptz := exchange_time();
  stalled  bigint[];
begin
  insert into target_work as w (target, worked_at)
  select distinct d.target, the_time from delivery d where d.state = 'delivering'
  on conflict (target) do update set worked_at = excluded.worked_at
    where w.worked_at < excluded.worked_at - interval '2 seconds';

  select array_agg(unheard.id) into stalled from (
    select d.id
    from waiting_targets() t
    cross join lateral (
      select d.id from delivery d join message m on m.id = d.message_id
      where d.target = t.target and d.state = 'queued' and d.waiting_since <= the_time - stall_wait(announcements)
      order by d.waiting_since limit batch
      for no key update of m, d skip locked
    ) d
    where t.worked_at <= the_time - stall_wait(announcements)
  ) unheard;
  if stalled is not null then
    perform end_deliveries(stalled, 'stalled', 'No target took it for ' || wait_in_words(stall_wait(announcements)));
  end if;
  return coalesce(cardinality(stalled), 0);
end $$;`

const ANNOUNCE = `
-- The targets that queued deliveries wait for. It goes from one target to the next, however many wait for each.
create function waiting_targets() returns table (target text, worked_at timestamptz) stable language sql as $$
  with recursive waiting as (
    (select d.target from delivery d where d.state = 'queued' order by d.target limit 1)
    union all
    select (select d.target from delivery d where d.state = 'queued' and d.target > w.target order by d.target limit 1)
    from waiting w where w.target is not null
  )
  select w.target, coalesce(k.worked_at, '-infinity')
  from waiting w left join target_work k on k.target = w.target where w.target is not null
$$;

-- The targets to tell of what waits for them: those of retries that are due, and those for which a queued delivery has
-- come to its next announcement since the last call. The first announcement is the acceptance itself.
create function announce_deliveries(announcements integer) returns table (target text) language plpgsql as $$
#variable_conflict use_column
declare
  the_time timestamptz := exchange_time();
  previous timestamptz;
begin
  select coalesce(announced_at, '-infinity') into previous from exchange_clock;
  update exchange_clock set announced_at = the_time;
  return query
  select t.target from waiting_targets() t
  where exists (
    select from generate_series(1, announcements - 1) as n
    cross join lateral (select previous - stall_wait(n) as after, the_time - stall_wait(n) as until) span
    where exists (
        select from delivery d where d.target = t.target and d.state = 'queued' and d.waiting_since <= t.worked_at
          and t.worked_at > span.after and t.worked_at <= span.until)
      or exists (
        select from delivery d where d.target = t.target and d.state = 'queued'
          and d.waiting_since > greatest(span.after, t.worked_at) and d.waiting_since <= span.until)
  )
  union
  select distinct d.target from delivery d where d.state = 'retrying' and d.next_attempt_at <= the_time;
end $$;`

const OVERDUE = `
-- Why such a delivery has failed; what is told of it is told by this reason.
create function no_receipt_came() returns text immutable parallel safe language sql
return 'No receipt came by its deadline';

-- Fails deliveries whose receipt has not come by its deadline. A module that keeps the state of a receipt with the
-- message as \`receipt.state\` finds it \`overdue\`.
create function fail_overdue_receipts(batch integer) returns integer language plpgsql as $$
declare
  overdue bigint[];
begin
  select array_agg(late.id) into overdue from (
    select d.id from delivery d join message m on m.id = d.message_id
    where d.state = 'awaiting_ack' and d.receipt_due_at <= exchange_time()
    order by d.receipt_due_at limit batch
    for no key update of m, d skip locked
  ) late;
  if overdue is null then return 0; end if;
  update message m set updated_at = now(), protocols = (
      select jsonb_object_agg(key,
        case when value -> 'receipt' ->> 'state' = 'pending' then jsonb_set(value, '{receipt,state}', '"overdue"') else value end)
      from jsonb_each(m.protocols))
  where m.id = any (array(select message_id from delivery where id = any (overdue))) and m.protocols <> '{}';
  perform end_deliveries(overdue, 'failed', no_receipt_came());
  return cardinality(overdue);
end $$;`
