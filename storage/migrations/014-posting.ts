/**
 * How a notifier works on its rows of the log: it claims them in order, one post at a time, whichever node it runs on. After
 * a failed post it rests; then what is fresh is posted though the failed one waits longer, only not what repeats that. Part
 * of 014-alerts.ts.
 */

const CONDITIONS = `
-- Whether the address was told of this key so recently. Without a cooldown, never: the times are null.
create function is_cooling(of_instance text, key text, to_address text, since_time timestamptz, since_date timestamptz)
returns boolean stable language plpgsql as $$
begin
  return exists (
    select from notification p where p.instance = of_instance and p.dedupe_key = key
      and p.posted_at > since_time and p.delivered_at > since_date and p.address = to_address);
end $$;

-- Whether another alert with this key waits for the repeat of its post, by itself or with a group.
create function is_held(of_instance text, key text) returns boolean stable language plpgsql as $$
begin
  return exists (
    select from notification h where h.instance = of_instance and h.dedupe_key = key
      and (h.due_at is not null or (h.outcome = 'grouped' and h.delivered_at is null)));
end $$;`

const NEXT = `
-- The oldest alert that waits for its first post, and for no other one. Behind a hundred that do, it is looked for by the
-- keys: in a storm they are few.
create function oldest_notification(wanted text, holds boolean) returns notification language plpgsql as $$
declare
  oldest notification;
begin
  select f.* into oldest from (
    select w.* from fresh_notification w where w.instance = wanted order by w.raised_at, w.id limit 100
  ) f
  where not (holds and is_held(f.instance, f.dedupe_key))
  order by f.raised_at, f.id limit 1;
  if found or not holds then return oldest; end if;
  with recursive keys as (
    select min(w.dedupe_key) as key from fresh_notification w where w.instance = wanted
    union all
    select (select min(w.dedupe_key) from fresh_notification w where w.instance = wanted and w.dedupe_key > k.key)
    from keys k where k.key is not null
  )
  select f.* into oldest from keys k
  cross join lateral (
    select w.* from fresh_notification w where w.instance = wanted and w.dedupe_key = k.key order by w.raised_at, w.id limit 1
  ) f
  where not is_held(wanted, k.key)
  order by f.raised_at, f.id limit 1;
  return oldest;
end $$;

-- The same. What the cooldown leaves out before it is settled, as a batch: in a storm most are.
create function next_notification(
  wanted text, holds boolean, to_address text, cools_time timestamptz, cools_date timestamptz
) returns notification language plpgsql as $$
declare
  oldest notification;
begin
  loop
    oldest := oldest_notification(wanted, holds);
    exit when oldest.id is null or not is_cooling(wanted, oldest.dedupe_key, to_address, cools_time, cools_date);
    update notification n set outcome = 'suppressed_cooldown'
    where n.id = any (array(
      select f.id from (
        select w.id, w.dedupe_key from fresh_notification w where w.instance = wanted order by w.raised_at, w.id limit 500
      ) f
      where is_cooling(wanted, f.dedupe_key, to_address, cools_time, cools_date)
      union
      (select w.id from fresh_notification w
       where w.instance = wanted and w.dedupe_key = oldest.dedupe_key order by w.raised_at, w.id limit 500)));
  end loop;
  return oldest;
end $$;`

const GROUP = `
-- Lets what was raised within the window of the oldest share one post; answers the row that carries it. What the cooldown
-- leaves out is not in it. With a cooldown neither are repeats of a key: they wait for what comes of the first of them.
-- The post lists 20: the worst first, and what repeats after what does not.
create function group_notifications(
  oldest notification, lasts interval, of_format text, to_address text, cools_time timestamptz, cools_date timestamptz
) returns bigint language sql as $$
  with fresh as materialized (
    select w.id, w.raised_at, severity_rank(w.severity) as rank, w.dedupe_key,
      is_cooling(w.instance, w.dedupe_key, to_address, cools_time, cools_date) as is_cooling
    from fresh_notification w
    where w.instance = oldest.instance and w.raised_at between oldest.raised_at and oldest.raised_at + lasts
      and w.created_at <= oldest.created_at + lasts
      and (cools_time is null or not is_held(w.instance, w.dedupe_key))
    order by w.raised_at, w.id limit 10000
  ), counted as (
    select f.*, row_number() over (partition by f.dedupe_key order by f.rank desc, f.raised_at, f.id) as nth
    from fresh f where not f.is_cooling
  ), kept as materialized (
    select c.id, row_number() over (order by c.rank desc, c.nth > 1, c.raised_at, c.id) as place,
      first_value(c.id) over (order by c.raised_at, c.id) as carrier_id
    from counted c where c.nth = 1 or cools_time is null
  ), left_out as (
    update notification n set outcome = 'suppressed_cooldown'
    from fresh f where n.id = f.id and f.is_cooling
  ), grouped as (
    update notification n set place = case when k.place <= 20 then k.place end, format = of_format,
      outcome = case when n.id = k.carrier_id then 'queued' else 'grouped' end,
      carrier_id = nullif(k.carrier_id, n.id)
    from kept k where n.id = k.id
  )
  select carrier_id from kept limit 1
$$;`

const CHOICE = `
-- The row to post next: a test, then a repeat that is due, then what is fresh; see \`claimPost\`. None: after how many
-- seconds there may be one, null when nothing waits.
create function choose_post(
  wanted text, of_format text, to_address text, cooldown interval, groups interval, out chosen bigint, out look_again float8
) language plpgsql as $$
declare
  the_time   timestamptz := exchange_time();
  is_cooled  boolean := cooldown > '0';
  is_grouped boolean := groups > '0';
  rests      float8;
  due_in     float8;
  oldest     notification;
begin
  select n.id into chosen from notification n
  where n.instance = wanted and n.outcome = 'queued' and n.test order by n.id limit 1;
  if chosen is not null then return; end if;

  select max(extract(epoch from least(n.rest_at - the_time, n.rest_date - now()))),
    min(extract(epoch from least(n.due_at - the_time, n.due_date - now())))
  into rests, due_in from notification n where n.instance = wanted and n.due_at is not null;
  if rests > 0 then
    look_again := rests;
    return;
  end if;
  if due_in <= 0 then
    select n.id into chosen from notification n
    where n.instance = wanted and n.due_at is not null and (n.due_at <= the_time or n.due_date <= now())
    order by n.due_at, n.raised_at, n.id limit 1;
    return;
  end if;

  oldest := next_notification(wanted, is_cooled or not is_grouped, to_address,
    case when is_cooled then the_time - cooldown end, case when is_cooled then now() - cooldown end);
  look_again := due_in;
  if oldest.id is null then return; end if;
  if is_grouped then
    look_again := least(due_in,
      extract(epoch from least(oldest.raised_at - the_time, oldest.created_at - now()) + groups));
    if look_again > 0 then return; end if;
    chosen := group_notifications(oldest, groups, of_format, to_address,
      case when is_cooled then the_time - cooldown end, case when is_cooled then now() - cooldown end);
  else
    chosen := oldest.id;
  end if;
end $$;`

const CLAIM = `
-- Claims the next post of a notifier. One decides at a time; each statement sees what those before have committed.
create function claim_post(
  wanted text, of_format text, to_address text, by_owner text, lease_seconds float8, cooldown_seconds float8,
  group_seconds float8
) returns table (id bigint, fencing bigint, attempts integer, test boolean, count bigint, look_again float8)
language plpgsql as $$
#variable_conflict use_column
declare
  the_time timestamptz;
  choice   record;
begin
  perform lock_notifications(wanted);
  the_time := exchange_time();
  perform release_posts(array(
    select n.id from notification n
    where n.instance = wanted and n.lease_owner is not null and n.lease_until <= the_time));
  if exists (select from notification n where n.instance = wanted and n.lease_owner is not null) then
    return query select null::bigint, null::bigint, null::integer, null::boolean, null::bigint, 1::float8;
    return;
  end if;
  select c.chosen, c.look_again into choice from choose_post(wanted, of_format, to_address,
    make_interval(secs => cooldown_seconds), make_interval(secs => group_seconds)) c;
  if choice.chosen is null then
    return query select null::bigint, null::bigint, null::integer, null::boolean, null::bigint, choice.look_again;
    return;
  end if;
  update notification n set attempts = n.attempts + 1, fencing = n.fencing + 1, format = of_format, address = to_address,
    due_at = null, due_date = null, rest_at = null, rest_date = null,
    lease_owner = by_owner, lease_until = the_time + make_interval(secs => lease_seconds)
  where n.id = choice.chosen;
  -- A repeat by an instance that was started anew.
  update notification g set format = of_format where g.carrier_id = choice.chosen and g.format <> of_format;
  return query select n.id, n.fencing, n.attempts, n.test,
    1 + (select count(*) from notification g where g.carrier_id = n.id), null::float8
  from notification n where n.id = choice.chosen;
end $$;`

const SETTLE = `
-- How a post ended; see \`settlePost\`. A group ends as its post does. False: the claim was lost.
create function settle_post(
  wanted bigint, held_fencing bigint, ended text, failure text, delay_seconds float8, rest_seconds float8
) returns boolean language plpgsql as $$
declare
  the_time timestamptz := exchange_time();
  delay    interval := make_interval(secs => delay_seconds);
  rest     interval := make_interval(secs => rest_seconds);
  settled  notification;
begin
  perform lock_notifications(n.instance) from notification n where n.id = wanted;
  update notification n set lease_owner = null, lease_until = null, last_error = left(failure, 2000),
    outcome = case when ended = 'delivered' then 'delivered' when ended = 'failed' or n.test then 'failed' else n.outcome end,
    due_at = case when not n.test then the_time + delay end, due_date = case when not n.test then now() + delay end,
    rest_at = case when not n.test then the_time + rest end, rest_date = case when not n.test then now() + rest end,
    posted_at = case when ended = 'delivered' and n.place is not null then the_time end,
    delivered_at = case when ended = 'delivered' then now() end
  where n.id = wanted and n.fencing = held_fencing and n.lease_owner is not null
  returning * into settled;
  if not found then return false; end if;
  if settled.outcome = 'delivered' then
    update notification g set delivered_at = now(), address = settled.address,
      posted_at = case when g.place is not null then the_time end
    where g.carrier_id = wanted and g.outcome = 'grouped';
    perform wake_repeats(settled.instance);
  elsif settled.outcome = 'failed' then
    update notification g set outcome = 'failed', last_error = settled.last_error
    where g.carrier_id = wanted and g.outcome = 'grouped';
  end if;
  return true;
end $$;`

export const POSTING: readonly string[] = [CONDITIONS, NEXT, GROUP, CHOICE, CLAIM, SETTLE]
