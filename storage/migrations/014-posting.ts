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

-- The keys of alerts that wait for the repeat of their post, by themselves or with a group.
create function held_keys(of_instance text) returns text[] stable language plpgsql as $$
begin
  return array(
    select b.dedupe_key from begun_notification b where b.instance = of_instance and b.due_at is not null
    union
    select g.dedupe_key from begun_notification b join notification g on g.carrier_id = b.id
    where b.instance = of_instance and b.due_at is not null and b.alerts > 1);
end $$;`

const NEXT = `
-- The oldest alert that waits for its first post, other than those with the keys that are held. What the cooldown leaves out
-- before it is settled, as a batch: in a storm most are. What an event made for a former notifier of this name is ended.
create function next_notification(
  wanted text, configured bigint, held text[], to_address text, cools_time timestamptz, cools_date timestamptz
) returns notification language plpgsql as $$
declare
  oldest notification;
begin
  loop
    select w.* into oldest from fresh_notification w
    where w.instance = wanted and w.dedupe_key not in (select unnest(held))
    order by w.raised_at, w.id limit 1;
    exit when not found;
    if oldest.incarnation <> configured then
      update notification n set outcome = 'failed', last_error = 'The notifier was deleted'
      where n.id = any (array(
        select w.id from fresh_notification w where w.instance = wanted and w.incarnation <> configured));
      continue;
    end if;
    exit when cools_time is null;
    exit when not is_cooling(wanted, oldest.dedupe_key, to_address, cools_time, cools_date);
    update notification n set outcome = 'suppressed_cooldown'
    where n.id = any (array(
      with waiting as materialized (
        select w.id, w.dedupe_key from fresh_notification w
        where w.instance = wanted and (w.raised_at, w.id) >= (oldest.raised_at, oldest.id) and w.incarnation = configured
        order by w.raised_at, w.id limit 1000
      )
      select w.id from (select distinct dedupe_key from waiting) k join waiting w using (dedupe_key)
      where is_cooling(wanted, k.dedupe_key, to_address, cools_time, cools_date)));
  end loop;
  return oldest;
end $$;`

const GROUP = `
-- Lets what was raised within the window of the oldest share one post; answers the row that carries it. What the cooldown
-- leaves out is not in it. With a cooldown neither are repeats of a key: they wait for what comes of the first of them.
-- The post lists so many: the worst first, and what repeats after what does not.
create function group_notifications(
  oldest notification, lasts interval, listed integer, held text[], to_address text, cools_time timestamptz,
  cools_date timestamptz
) returns bigint language sql as $$
  with fresh as materialized (
    select w.id, w.raised_at, severity_rank(w.severity) as rank, w.dedupe_key
    from fresh_notification w
    where w.instance = oldest.instance and w.raised_at between oldest.raised_at and oldest.raised_at + lasts
      and w.created_at <= oldest.created_at + lasts and w.dedupe_key not in (select unnest(held))
      and w.incarnation = oldest.incarnation
    order by w.raised_at, w.id limit 10000
  ), cooled as materialized (
    select k.dedupe_key from (select distinct f.dedupe_key from fresh f where cools_time is not null) k
    where is_cooling(oldest.instance, k.dedupe_key, to_address, cools_time, cools_date)
  ), counted as (
    select f.*, row_number() over (partition by f.dedupe_key order by f.rank desc, f.raised_at, f.id) as nth
    from fresh f where f.dedupe_key not in (select c.dedupe_key from cooled c)
  ), kept as materialized (
    select c.id, row_number() over (order by c.rank desc, c.nth > 1, c.raised_at, c.id) as place,
      first_value(c.id) over (order by c.raised_at, c.id) as carrier_id, count(*) over () as alerts
    from counted c where c.nth = 1 or cools_time is null
  ), left_out as (
    update notification n set outcome = 'suppressed_cooldown'
    from fresh f where n.id = f.id and f.dedupe_key in (select c.dedupe_key from cooled c)
  ), grouped as (
    update notification n set place = case when k.place <= listed then k.place end,
      outcome = case when n.id = k.carrier_id then 'queued' else 'grouped' end,
      carrier_id = nullif(k.carrier_id, n.id), alerts = case when n.id = k.carrier_id then k.alerts else 1 end
    from kept k where n.id = k.id
  )
  select carrier_id from kept limit 1
$$;`

const CHOICE = `
-- The row to post next: a test, then a repeat that is due, then what is fresh; see \`claimPost\`. None: after how many
-- seconds there may be one, null when nothing waits.
create function choose_post(
  wanted text, configured bigint, listed integer, to_address text, cooldown interval, groups interval, out chosen bigint,
  out look_again float8
) language plpgsql as $$
declare
  the_time   timestamptz := exchange_time();
  is_cooled  boolean := cooldown > '0';
  is_grouped boolean := groups > '0';
  cools_time timestamptz := case when is_cooled then the_time - cooldown end;
  cools_date timestamptz := case when is_cooled then now() - cooldown end;
  held       text[] := '{}';
  rests      float8;
  due_in     float8;
  oldest     notification;
begin
  select b.id into chosen from begun_notification b where b.instance = wanted and b.test order by b.id limit 1;
  if chosen is not null then return; end if;

  select extract(epoch from least(r.rest_at - the_time, r.rest_date - now())) into rests
  from notifier_rest r where r.instance = wanted;
  if rests > 0 then
    look_again := rests;
    return;
  end if;
  select min(extract(epoch from least(b.due_at - the_time, b.due_date - now()))) into due_in
  from begun_notification b where b.instance = wanted and b.due_at is not null;
  if due_in <= 0 then
    select b.id into chosen from begun_notification b
    where b.instance = wanted and (b.due_at <= the_time or b.due_date <= now())
    order by b.due_at, b.raised_at, b.id limit 1;
    return;
  end if;

  if due_in is not null and (is_cooled or not is_grouped) then held := held_keys(wanted); end if;
  oldest := next_notification(wanted, configured, held, to_address, cools_time, cools_date);
  look_again := due_in;
  if oldest.id is null then return; end if;
  if is_grouped then
    look_again := least(due_in,
      extract(epoch from least(oldest.raised_at - the_time, oldest.created_at - now()) + groups));
    if look_again > 0 then return; end if;
    chosen := group_notifications(oldest, groups, listed, held, to_address, cools_time, cools_date);
  else
    chosen := oldest.id;
  end if;
end $$;`

const CLAIM = `
-- Claims the next post of a notifier. One decides at a time; each statement sees what those before have committed. The
-- plans are kept, and the first may be made while the log is empty: they are to be those of a storm.
--
-- An instance that was started with a configuration which is not the saved one any more posts nothing. It makes one post at a
-- time: what is in its hand already is a claim whose answer it never got, and is answered as it is. A claim that comes late,
-- when its caller has long asked again, changes nothing that way.
create function claim_post(
  wanted text, of_generation uuid, of_format text, to_address text, by_owner text, lease_seconds float8,
  cooldown_seconds float8, group_seconds float8, listed integer
) returns table (
  id bigint, post_id uuid, fencing bigint, attempts integer, test boolean, count integer, look_again float8
) language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  the_time   timestamptz;
  configured bigint;
  in_hand    bigint;
  choice     record;
begin
  perform lock_notifications(wanted);
  the_time := exchange_time();
  select p.incarnation into configured from plugin_configuration p
  where p.name = wanted and p.generation = of_generation;
  if not found then return; end if;

  select b.id into in_hand from begun_notification b where b.instance = wanted and b.lease_owner = by_owner;
  if found then
    update notification n set lease_until = the_time + make_interval(secs => lease_seconds) where n.id = in_hand;
    return query select n.id, n.post_id, n.fencing, n.attempts, n.test, n.alerts, null::float8
    from notification n where n.id = in_hand;
    return;
  end if;
  perform release_posts(array(
    select b.id from begun_notification b where b.instance = wanted and b.lease_until <= the_time));
  if exists (select from begun_notification b where b.instance = wanted and b.lease_owner is not null) then
    return query select null::bigint, null::uuid, null::bigint, null::integer, null::boolean, null::integer, 1::float8;
    return;
  end if;

  select c.chosen, c.look_again into choice from choose_post(wanted, configured, listed, to_address,
    make_interval(secs => cooldown_seconds), make_interval(secs => group_seconds)) c;
  if choice.chosen is null then
    return query select null::bigint, null::uuid, null::bigint, null::integer, null::boolean, null::integer,
      choice.look_again;
    return;
  end if;
  update notification n set attempts = n.attempts + 1, fencing = n.fencing + 1, format = of_format, address = to_address,
    post_id = coalesce(n.post_id, gen_random_uuid()), due_at = null, due_date = null,
    lease_owner = by_owner, lease_until = the_time + make_interval(secs => lease_seconds)
  where n.id = choice.chosen;
  return query select n.id, n.post_id, n.fencing, n.attempts, n.test, n.alerts, null::float8
  from notification n where n.id = choice.chosen;
end $$;

-- A post that takes long is ours for so much longer. False: the claim was lost.
create function renew_post(wanted bigint, held_fencing bigint, lease_seconds float8) returns boolean language plpgsql
set enable_seqscan = off as $$
begin
  perform lock_notifications(n.instance) from notification n where n.id = wanted;
  update notification n set lease_until = exchange_time() + make_interval(secs => lease_seconds)
  where n.id = wanted and n.fencing = held_fencing and n.lease_owner is not null;
  return found;
end $$;`

const SETTLE = `
-- How a post ended; see \`settlePost\`. A group ends as its post does. False: the claim was lost.
create function settle_post(
  wanted bigint, held_fencing bigint, ended text, failure text, delay_seconds float8, rest_seconds float8
) returns boolean language plpgsql set enable_seqscan = off as $$
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
    posted_at = case when ended = 'delivered' and n.place is not null then the_time end,
    delivered_at = case when ended = 'delivered' then now() end
  where n.id = wanted and n.fencing = held_fencing and n.lease_owner is not null
  returning * into settled;
  if not found then return false; end if;
  if settled.outcome = 'delivered' then
    -- Those that are listed begin a cooldown each.
    if settled.alerts > 1 then
      update notification g set posted_at = the_time, delivered_at = now(), address = settled.address
      where g.carrier_id = wanted and g.place is not null;
    end if;
    perform wake_repeats(settled.instance);
    return true;
  end if;
  if settled.outcome = 'failed' and settled.alerts > 1 then
    update notification g set outcome = 'failed', last_error = settled.last_error where g.carrier_id = wanted;
  end if;
  if rest is not null and not settled.test then
    insert into notifier_rest values (settled.instance, the_time + rest, now() + rest)
    on conflict (instance) do update set rest_at = excluded.rest_at, rest_date = excluded.rest_date;
  end if;
  return true;
end $$;`

export const POSTING: readonly string[] = [CONDITIONS, NEXT, GROUP, CHOICE, CLAIM, SETTLE]
