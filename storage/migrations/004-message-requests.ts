import { Migration } from '@mikro-orm/migrations'

/**
 * What the requests about messages need: lists that stay fast however many messages there are, messages that are sent
 * by hand, and the two moves that only an operator asks for, redelivery and redispatch.
 *
 * **Lists.** A list answers how many messages match in all, and any page of them, while counting a million rows takes
 * a tenth of a second. So messages are counted as they change. Time is cut into spans of about 4,000 messages each,
 * and `message_count` has how many of each span are from whom, to whom and in which status; `*` stands for any party,
 * `=name` for one. A page is found by walking the spans from the newest, and then only those that it lies in are read.
 *
 * Every transaction notes its changes as rows of its own in `message_change`: two that end at the same moment wait for
 * nothing. A round of the process folds them into the counts. Who asks adds up both in one snapshot, so that a total
 * is exact at any moment, also when nobody has folded for a day.
 */
export class MessageRequests extends Migration {
  override up(): void {
    const lists = [COUNTS, CHANGES, KEYS, RECOUNT, FOLD, PAGE]
    for (const sql of [SENT_BY_HAND, ...lists, REDISPATCH, REDELIVER, BEGIN]) this.addSql(sql)
  }
}

const SENT_BY_HAND = `
-- False for a message that was sent by hand to a target of the sender's choice: routes have no say in it.
alter table message add column routed boolean not null default true;`

const COUNTS = `
create table message_span (
  starts  timestamptz primary key,
  -- How many messages it had when it was cut. It is cut again when it has grown.
  counted bigint not null
);

create table message_count (
  from_party text collate "C" not null,
  to_party   text collate "C" not null,
  starts     timestamptz not null,
  status     text not null,
  n          bigint not null,
  -- A total is a sum along this index alone.
  primary key (from_party, to_party, status, starts) include (n)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
create index message_count_span on message_count (starts, status, from_party, to_party);

-- What is not folded yet. It has no key: it is short, always read whole, and written by every transaction.
create table message_change (
  created_at timestamptz not null,
  from_party text not null,
  to_party   text not null,
  status     text not null,
  n          bigint not null
);
alter table message_change set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Every list is a walk along this one, whatever it is filtered by: see message_page.
create index message_listed on message (from_party, to_party, status, created_at desc, id desc);`

const CHANGES = `
create function note_message_changes() returns trigger language plpgsql as $$
begin
  case tg_op
  when 'INSERT' then
    insert into message_change
    select created_at, from_party, to_party, status, count(*) from new_rows group by 1, 2, 3, 4;
  when 'DELETE' then
    insert into message_change
    select created_at, from_party, to_party, status, -count(*) from old_rows group by 1, 2, 3, 4;
  else
    insert into message_change
    select created_at, from_party, to_party, status, sum(n) from (
      select created_at, from_party, to_party, status, 1 as n from new_rows
      union all select created_at, from_party, to_party, status, -1 from old_rows
    ) change group by 1, 2, 3, 4 having sum(n) <> 0;
  end case;
  return null;
end $$;

create trigger message_inserted after insert on message
  referencing new table as new_rows for each statement execute function note_message_changes();
create trigger message_updated after update on message
  referencing old table as old_rows new table as new_rows for each statement execute function note_message_changes();
create trigger message_deleted after delete on message
  referencing old table as old_rows for each statement execute function note_message_changes();

create function forget_message_counts() returns trigger language plpgsql as $$
begin
  delete from message_change;
  delete from message_count;
  delete from message_span where starts > '-infinity';
  update message_span set counted = 0;
  return null;
end $$;
create trigger message_truncated after truncate on message for each statement execute function forget_message_counts();`

const KEYS = `
create function every_status() returns text[] immutable parallel safe language sql
return array['Received', 'InProgress', 'Retrying', 'AwaitingReceipt', 'Stalled', 'Delivered', 'NotRouted', 'Refused', 'Error'];

-- Under which keys a message of this pair is counted: its own, and with either party or both left open. A name that is
-- a lone asterisk is no wildcard: it is counted as \`=*\`.
create function message_keys(pair_from text, pair_to text) returns table (from_party text, to_party text)
immutable language sql as $$
  values ('=' || pair_from, '=' || pair_to), ('=' || pair_from, '*'), ('*', '=' || pair_to), ('*', '*')
$$;

-- The pairs and statuses that messages of a span can have, folded or not. Single parties lie between '=' and '>'.
create function message_keys_within(
  span timestamptz, ends timestamptz, least_from text, most_from text, least_to text, most_to text, statuses text[]
) returns table (from_party text, to_party text, status text) stable language sql as $$
  select substr(c.from_party, 2), substr(c.to_party, 2), c.status from message_count c
  where c.starts = span and c.status = any (statuses)
    and c.from_party between least_from and most_from and c.to_party between least_to and most_to
  union
  select u.from_party, u.to_party, u.status from message_change u
  where u.created_at >= span and u.created_at < ends and u.status = any (statuses)
    and '=' || u.from_party collate "C" between least_from and most_from
    and '=' || u.to_party collate "C" between least_to and most_to
$$;`

const RECOUNT = `
-- Cuts the spans between two boundaries anew and counts their messages. Who calls it holds the lock of the fold.
create function recount_messages(low timestamptz, high timestamptz) returns void language plpgsql as $$
begin
  delete from message_span where starts >= low and starts < high;
  insert into message_span (starts, counted)
  select low, 0
  union
  select created_at, 0 from (
    select created_at, row_number() over (order by created_at) as position
    from message where created_at >= low and created_at < high
  ) m where position % 4096 = 0 and created_at > low;

  -- The noted changes that this count contains go in the same statement: both see the same moment.
  delete from message_count where starts >= low and starts < high;
  with contained as (
    delete from message_change where created_at >= low and created_at < high
  ), span as (
    select starts, coalesce(lead(starts) over (order by starts), high) as ends
    from message_span where starts >= low and starts < high
  ), found as (
    select s.starts, m.from_party, m.to_party, m.status, m.n
    from span s cross join lateral (
      select from_party, to_party, status, count(*) as n
      from message where created_at >= s.starts and created_at < s.ends group by 1, 2, 3
    ) m
  )
  insert into message_count (from_party, to_party, starts, status, n)
  select k.from_party, k.to_party, f.starts, f.status, sum(f.n)
  from found f cross join lateral message_keys(f.from_party, f.to_party) k
  group by 1, 2, 3, 4;

  update message_span s set counted = coalesce((
    select sum(n) from message_count c where c.from_party = '*' and c.to_party = '*' and c.starts = s.starts), 0)
  where starts >= low and starts < high;
end $$;`

const FOLD = `
-- Folds at most so many noted changes into the counts and answers how many it folded. One folds at a time.
create function fold_message_changes(most integer) returns integer language plpgsql as $$
declare
  folded integer;
  touched timestamptz[];
  grown record;
begin
  if not pg_try_advisory_xact_lock(7721940321) then return 0; end if;
  with taken as (
    delete from message_change where ctid = any (array(select ctid from message_change limit most)) returning *
  ), placed as (
    select (select max(s.starts) from message_span s where s.starts <= t.created_at) as starts,
      t.from_party, t.to_party, t.status, sum(t.n) as n
    from taken t group by 1, 2, 3, 4
  ), added as (
    insert into message_count as c (from_party, to_party, starts, status, n)
    select k.from_party, k.to_party, p.starts, p.status, sum(p.n)
    from placed p cross join lateral message_keys(p.from_party, p.to_party) k
    group by 1, 2, 3, 4 having sum(p.n) <> 0
    on conflict (from_party, to_party, status, starts) do update set n = c.n + excluded.n
    returning c.starts
  )
  select (select count(*) from taken), (select array_agg(distinct starts) from added) into folded, touched;
  delete from message_count where starts = any (touched) and n = 0;

  for grown in
    select s.starts, (select min(starts) from message_span next where next.starts > s.starts) as ends
    from message_span s
    where s.starts = any (touched) and s.counted + 4096 <= (
      select sum(n) from message_count c where c.from_party = '*' and c.to_party = '*' and c.starts = s.starts)
  loop
    perform recount_messages(grown.starts, coalesce(grown.ends, 'infinity'));
  end loop;
  return folded;
end $$;`

const PAGE = `
-- The ids of a page of the messages that match, newest first, and how many match in all. Null is no filter. All its
-- statements see what the caller's statement sees.
create function message_page(
  wanted_status text, wanted_from text, wanted_to text, wanted_since timestamptz, page_limit integer, page_offset bigint
) returns table (total bigint, ids uuid[]) stable rows 1 language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off as $$
declare
  -- All single parties lie between '=' and '>', whatever they are called.
  least_from text := '=' || coalesce(wanted_from, '');
  most_from  text := coalesce('=' || wanted_from, '>');
  least_to   text := '=' || coalesce(wanted_to, '');
  most_to    text := coalesce('=' || wanted_to, '>');
  statuses   text[] := case when wanted_status is null then every_status() else array[wanted_status] end;
  -- From here on spans match whole. The one that wanted_since falls into is looked through.
  whole_from timestamptz := '-infinity';
  edge       timestamptz;
  in_whole   bigint;
  in_edge    bigint := 0;
  skipped    bigint;
  -- The parts of time that the page lies in, how many of its predecessors do, and of all messages that match.
  lows       timestamptz[];
  highs      timestamptz[];
  passed     bigint;
  low        timestamptz;
  matching   bigint;
begin
  if wanted_since is not null then
    select max(starts) into edge from message_span where starts <= wanted_since;
    select coalesce(min(starts), 'infinity') into whole_from from message_span where starts > wanted_since;
    if edge = wanted_since then
      whole_from := edge;
      edge := null;
    end if;
  end if;

  with part as (
    select c.starts, c.n from message_count c
    where c.from_party = coalesce('=' || wanted_from, '*') and c.to_party = coalesce('=' || wanted_to, '*')
      and c.starts >= whole_from and (wanted_status is null or c.status = wanted_status)
    union all
    select (select max(s.starts) from message_span s where s.starts <= u.created_at), u.n from message_change u
    where u.created_at >= whole_from and u.status = any (statuses)
      and (wanted_from is null or u.from_party = wanted_from) and (wanted_to is null or u.to_party = wanted_to)
  ), span as (
    select starts, sum(n) as n from part group by starts having sum(n) <> 0
  ), walked as (
    select starts, n, sum(n) over (order by starts desc) as reached from span
  )
  select coalesce(max(w.reached), 0), min(w.reached - w.n) filter (where w.reached > page_offset),
    array_agg(w.starts order by w.starts desc)
      filter (where w.reached > page_offset and w.reached - w.n < page_offset + page_limit),
    coalesce(sum(w.n) filter (where w.reached > page_offset and w.reached - w.n < page_offset + page_limit), 0)
  into in_whole, skipped, lows, matching from walked w;
  passed := page_offset - coalesce(skipped, in_whole);
  select array_agg(coalesce((select min(s.starts) from message_span s where s.starts > l.low), 'infinity') order by l.low desc)
  into highs from unnest(lows) as l(low);

  if edge is not null then
    if wanted_status is null and wanted_from is null and wanted_to is null then
      select count(*) into in_edge from message where created_at >= wanted_since and created_at < whole_from;
    else
      select count(*) into in_edge
      from message_keys_within(edge, whole_from, least_from, most_from, least_to, most_to, statuses) k
      cross join lateral (
        select from message m where m.from_party = k.from_party and m.to_party = k.to_party and m.status = k.status
          and m.created_at >= wanted_since and m.created_at < whole_from
      ) m;
    end if;
    if in_whole < page_offset + page_limit then
      lows := array_append(lows, edge);
      highs := array_append(highs, whole_from);
      matching := matching + in_edge;
    end if;
  end if;
  total := in_whole + in_edge;

  if wanted_from is null and wanted_to is null and matching > 500
    and (cardinality(lows) = 1 or cardinality(lows) = 2 and highs[2] = lows[1])
  then
    -- So many of one or two spans match that the page is read in order, and what does not match is passed over.
    low := greatest(lows[cardinality(lows)], wanted_since);
    if wanted_status is null then
      select array_agg(m.id order by m.created_at desc, m.id desc) into ids from (
        select m.id, m.created_at from message m where m.created_at >= low and m.created_at < highs[1]
        order by m.created_at desc, m.id desc offset passed limit page_limit
      ) m;
    else
      select array_agg(m.id order by m.created_at desc, m.id desc) into ids from (
        select m.id, m.created_at from message m
        where m.created_at >= low and m.created_at < highs[1] and m.status = wanted_status
        order by m.created_at desc, m.id desc offset passed limit page_limit
      ) m;
    end if;
  else
    -- Every pair and status has its messages in order: of each the first ones are read.
    select array_agg(m.id order by m.created_at desc, m.id desc) into ids from (
      select m.id, m.created_at
      from unnest(lows, highs) as span(low, high)
      cross join lateral
        message_keys_within(span.low, span.high, least_from, most_from, least_to, most_to, statuses) k
      cross join lateral (
        select m.id, m.created_at from message m
        where m.from_party = k.from_party and m.to_party = k.to_party and m.status = k.status
          and m.created_at >= span.low and m.created_at < span.high
          and (wanted_since is null or m.created_at >= wanted_since)
        order by m.created_at desc, m.id desc limit passed + page_limit
      ) m
      order by m.created_at desc, m.id desc offset passed limit page_limit
    ) m;
  end if;
  return next;
end $$;`

const REDISPATCH = `
-- Announces again what no target has taken, and makes deliveries for the routes as they stand now. Answers the stage
-- that it found and the targets that have something to do; no row for an unknown message. What changes nothing, writes
-- nothing.
create function redispatch_message(wanted uuid, request text)
returns table (stage text, targets text[]) language plpgsql as $$
#variable_conflict use_column
declare
  the_time timestamptz := exchange_time();
  found_message message;
  waiting text[];
begin
  select m.* into found_message from message m where m.id = wanted for no key update;
  if not found then return; end if;
  if found_message.stage = 'accepted' or found_message.status = 'Refused' then
    return query select found_message.stage, '{}'::text[];
    return;
  end if;

  with again as (
    select d.id, d.target, d.state from delivery d
    where d.message_id = wanted and d.state in ('queued', 'stalled')
    order by d.id for no key update
  ), requeued as (
    update delivery d set state = 'queued', waiting_since = the_time, cut_offs = 0,
      last_error = case a.state when 'stalled' then null else d.last_error end, finished_at = null, updated_at = now()
    from again a where d.id = a.id
    returning d.id
  ), added as (
    insert into delivery (message_id, target, waiting_since)
    select wanted, r.target_plugin, the_time
    from route r
    where found_message.routed and r.source_plugin = found_message.source
      and r."from" in (found_message.from_party, '*') and r."to" in (found_message.to_party, '*')
    group by r.target_plugin order by r.target_plugin
    on conflict (message_id, target) do nothing
    returning id, target
  ), moved as (
    select a.id, a.target, a.state from again a join requeued r on r.id = a.id
    union all select id, target, null from added
  ), lines as (
    insert into history (message_id, kind, delivery_id, target, old_state, new_state, text)
    select wanted, kind, id, target, old_state, new_state, text from (
      select 1 as position, 'redispatch_requested' as kind, null::bigint as id, null as target, null as old_state,
        null as new_state, request as text
      where exists (select from moved)
      union all
      select 2, 'delivery_changed', id, target, state, 'queued', null from moved
      where state is distinct from 'queued'
    ) line order by position, id
  )
  select array_agg(m.target order by m.id) into waiting from moved m;

  if waiting is not null then
    update message set updated_at = now() where id = wanted;
    perform refresh_messages(array[wanted]);
  end if;
  return query select found_message.stage, coalesce(waiting, '{}');
end $$;`

const REDELIVER = `
-- Puts a delivery that has ended, or waits for its next attempt, back to queued. Answers the state that it found and
-- the target; no row for an unknown message or a delivery of another one.
create function redeliver_delivery(wanted_message uuid, wanted_delivery bigint, request text)
returns table (state text, target text) language plpgsql as $$
#variable_conflict use_column
declare
  found_delivery delivery;
begin
  perform from message m where m.id = wanted_message for no key update;
  select d.* into found_delivery from delivery d where d.id = wanted_delivery and d.message_id = wanted_message;
  if not found then return; end if;
  -- What is refused takes no lock: a claim leaves out what is locked, and would leave it out until it is announced again.
  if found_delivery.state in ('delivered', 'failed', 'stalled', 'retrying') then
    select d.* into found_delivery from delivery d where d.id = wanted_delivery for no key update;
  end if;
  if found_delivery.state in ('delivered', 'failed', 'stalled', 'retrying') then
    update delivery d set state = 'queued', attempts = 0, last_error = null, next_attempt_at = null, finished_at = null,
      waiting_since = exchange_time(), cut_offs = 0, receipt_open = false, receipt_verdict = null, receipt_failure = null,
      updated_at = now() where d.id = wanted_delivery;
    insert into history (message_id, kind, delivery_id, target, old_state, new_state, text)
    values (wanted_message, 'redeliver_requested', wanted_delivery, found_delivery.target, null, null, request),
      (wanted_message, 'delivery_changed', wanted_delivery, found_delivery.target, found_delivery.state, 'queued', null);
    update message m set updated_at = now() where m.id = wanted_message;
    perform refresh_messages(array[wanted_message]);
  end if;
  return query select found_delivery.state, found_delivery.target;
end $$;`

const BEGIN = `
insert into message_span (starts, counted) values ('-infinity', 0);
select recount_messages('-infinity', 'infinity');`
