import { Migration } from '@mikro-orm/migrations'

/**
 * Receipts that travel by themselves, in both directions.
 *
 * **Those that we wait for.** What is needed to judge a receipt is committed before the message is sent (\`expect_receipt\`),
 * so a receipt may come at any moment, on any node: before the answer to the sending, while the sender is dead, or after
 * the deadline. One that comes before its attempt is settled leaves its verdict with the delivery, and the settlement of
 * 002 follows it, whatever the attempt itself came to. \`take_receipt\` is the one place where a receipt takes effect.
 *
 * **Those that we owe.** A receipt that a partner wants by itself is committed with its message, and an order to send it
 * (\`receipt_dispatch\`) too. The orders of a receiver are worked on by it on any node: a claim makes the order due again
 * only when its time is over, and counts up its fencing number. An order goes when the receipt was taken or has expired.
 *
 * **What was said stays.** A message may be delivered again. What a partner said of it in a receipt, and the bytes of that
 * receipt, are then replaced by another genuine receipt alone: not by an attempt that brought none, nor by a forged one.
 *
 * The names of a module's facts are not known here: what is said of a receipt stands under \`receipt\` in them, with its
 * \`state\`, and with the \`disposition\` that only a genuine one has.
 */
export class Receipts extends Migration {
  override up(): void {
    for (const sql of [EXPECTED, SAID, EXPECT, TAKE, DISPATCH, STATE, SETTLE, ADOPT, EXPIRE, AGAIN])
      this.addSql(sql)
  }
}

const EXPECTED = `
alter table delivery
  -- Its message was sent so that a receipt of it counts, also before the attempt is settled.
  add column receipt_open boolean not null default false,
  -- What a receipt said that came before the attempt was settled.
  add column receipt_verdict text check (receipt_verdict in ('delivered', 'failed')),
  add column receipt_failure text,
  add check (receipt_verdict is null or receipt_open),
  add check ((receipt_failure is not null) = coalesce(receipt_verdict = 'failed', false));

create table expected_receipt (
  message_id  uuid primary key references message on delete cascade,
  -- How a receipt names the message: the id that it travels under, without brackets.
  sent_as     text not null check (length(sent_as) between 1 and 998),
  -- What the protocol holds the receipt against.
  expectation jsonb not null,
  -- What the message's receipts had said when it was sent last, by module name: no answer to that sending.
  said_before jsonb not null,
  -- Lines that were written about receipts which change nothing: anybody can send those, so their number is bounded.
  repeats     integer not null default 0,
  forgeries   integer not null default 0
);
create index expected_receipt_sent_as on expected_receipt using hash (sent_as);`

const SAID = `
-- Whether these facts of a message hold what a receipt said of it. One that is waited for says nothing, nor does a forged one.
create function tells_receipt(facts jsonb) returns boolean immutable parallel safe language sql
return coalesce(jsonb_path_exists(facts, '$.*.receipt.disposition ? (@ != null)'), false);

-- The facts of a message after those of one more attempt: what a receipt said stays, until another one says something.
create function with_attempt(facts jsonb, attempted jsonb) returns jsonb immutable parallel safe language sql as $$
  select facts || coalesce(jsonb_object_agg(key, case
    when facts -> key -> 'receipt' ->> 'disposition' is null or value -> 'receipt' ->> 'disposition' is not null then value
    else value || jsonb_build_object('receipt', facts -> key -> 'receipt') end), '{}')
  from jsonb_each(attempted)
$$;`

const EXPECT = `
-- Says, before a claimed delivery is sent, what its receipt will be held against. Answers 'awaited'; 'answered' when the
-- receipt of an attempt before has come already, which the settlement will follow; 'lost' when the claim is.
create function expect_receipt(
  wanted_message uuid, wanted_delivery bigint, held_fencing bigint, travels_as text, held_against jsonb, facts jsonb
) returns text language plpgsql as $$
declare
  sent      delivery;
  announced jsonb;
begin
  select with_attempt(protocols, facts) into announced from message where id = wanted_message for no key update;
  update delivery set receipt_open = true
  where id = wanted_delivery and message_id = wanted_message and fencing = held_fencing and lease_owner is not null
  returning * into sent;
  if not found then return 'lost'; end if;
  if sent.receipt_verdict is not null then return 'answered'; end if;
  insert into expected_receipt (message_id, sent_as, expectation, said_before) values (wanted_message, travels_as,
    held_against, (select coalesce(jsonb_object_agg(key, value -> 'receipt'), '{}') from jsonb_each(announced)))
  on conflict (message_id) do update
  set sent_as = excluded.sent_as, expectation = excluded.expectation, said_before = excluded.said_before;
  update message set protocols = announced, updated_at = now() where id = wanted_message;
  return 'awaited';
end $$;`

const TAKE = `
-- What a genuine receipt says of a message: taken by the partner, or with a reason refused. It ends every delivery that
-- waits for it, and leaves its verdict with those whose attempt is not settled. The answer is what it came to ('counted',
-- 'late' when nothing waited for it any more and none had come since the message was sent last, 'repeated'; no row for an
-- unknown message), and the targets that have something to do.
create function take_receipt(
  wanted_message uuid, module text, receipt jsonb, failure text, line_kind text, line_text text,
  stage_facts jsonb, stage_bytes bytea, most_repeats integer
) returns table (effect text, targets text[]) language plpgsql as $$
#variable_conflict use_column
declare
  the_time timestamptz := exchange_time();
  verdict  text := case when failure is null then 'delivered' else 'failed' end;
  before   message;
  waiting  bigint[];
  early    bigint[];
  waking   text[];
  had      jsonb;
begin
  select m.* into before from message m where m.id = wanted_message for no key update;
  if not found then return; end if;
  had := before.protocols -> module -> 'receipt';
  select coalesce(array_agg(d.id) filter (where d.state = 'awaiting_ack'), '{}'),
    coalesce(array_agg(d.id) filter (where d.state <> 'awaiting_ack'), '{}'),
    coalesce(array_agg(d.target) filter (where d.state in ('queued', 'retrying')), '{}')
  into waiting, early, waking from (
    select d.id, d.state, d.target from delivery d
    where d.message_id = wanted_message and (d.state = 'awaiting_ack'
      or d.receipt_open and d.receipt_verdict is null and d.state in ('queued', 'delivering', 'retrying'))
    order by d.id for no key update
  ) d;

  if waiting = '{}' and early = '{}' and had ->> 'disposition' is not null
    and not exists (select from expected_receipt e where e.message_id = wanted_message and e.said_before -> module = had)
  then
    update expected_receipt e set repeats = repeats + 1 where e.message_id = wanted_message and repeats < most_repeats;
    if found then
      insert into history (message_id, kind, text)
      values (wanted_message, line_kind, line_text || ' (the message had its receipt before)');
    end if;
    return query select 'repeated', '{}'::text[];
    return;
  end if;

  update delivery d set state = verdict, last_error = failure, receipt_due_at = null, finished_at = now(), updated_at = now()
  where d.id = any (waiting);
  -- What waits for its next attempt need not: that one finds the verdict.
  update delivery d set receipt_verdict = verdict, receipt_failure = failure, updated_at = now(),
    next_attempt_at = case d.state when 'retrying' then least(d.next_attempt_at, the_time) end
  where d.id = any (early);
  insert into history (message_id, kind, delivery_id, target, old_state, new_state, text)
  select wanted_message, line.kind, d.id, d.target, line.old_state, line.new_state, line.text
  from delivery d
  cross join lateral (values
    (1, line_kind, null, null, line_text), (2, 'delivery_changed', 'awaiting_ack', verdict, failure)
  ) as line (position, kind, old_state, new_state, text)
  where d.id = any (waiting || early) and (line.position = 1 or d.id = any (waiting))
  order by d.id, line.position;
  if waiting = '{}' and early = '{}' then
    insert into history (message_id, kind, text) values (wanted_message, line_kind, line_text || case
      when exists (select from delivery d where d.message_id = wanted_message and d.last_error = no_receipt_came())
      then ' (it came too late)' else ' (no delivery waited for it)' end);
  end if;

  insert into journal (message_id, stage, bytes)
  select wanted_message, 'receipt', stage_bytes where stage_bytes is not null
  on conflict (message_id, stage) do update set bytes = excluded.bytes, created_at = excluded.created_at;
  update message m set updated_at = now(), protocols = jsonb_set(m.protocols, array[module, 'receipt'], receipt),
    payloads = case when stage_facts is null then m.payloads
      else m.payloads || stamped_stages(jsonb_build_object('receipt', stage_facts)) end
  where m.id = wanted_message;
  perform refresh_messages(array[wanted_message]);
  return query select case when waiting = '{}' and early = '{}' then 'late' else 'counted' end, waking;
end $$;`

const DISPATCH = `
create table receipt_dispatch (
  id              bigint generated by default as identity primary key,
  message_id      uuid not null references message on delete cascade,
  -- The instance that took the message in. It sends the receipt, on whichever node.
  receiver        text not null,
  url             text not null check (length(url) between 1 and 8192),
  attempts        integer not null default 0 check (attempts >= 0),
  -- In exchange time. While somebody sends it: when that one has had enough time.
  next_attempt_at timestamptz not null,
  expires_at      timestamptz not null,
  -- Counts the claims. Who settles with an older number comes from a claim that was lost.
  fencing         bigint not null default 0,
  lease_owner     text,
  last_error      text,
  created_at      timestamptz not null default now()
) with (fillfactor = 70);
create unique index receipt_dispatch_once on receipt_dispatch (message_id, md5(url));
create index receipt_dispatch_due on receipt_dispatch (receiver, next_attempt_at);
create index receipt_dispatch_expiry on receipt_dispatch (expires_at);`

const STATE = `
-- Moves the state that a module keeps of a receipt, from this one alone. The caller holds the lock on the message.
create function move_receipt(wanted_message uuid, old_state text, new_state text) returns void language sql as $$
  update message m set updated_at = now(), protocols = (
    select jsonb_object_agg(key, case when value -> 'receipt' ->> 'state' <> old_state or value -> 'receipt' -> 'state' is null
      then value
      else value || jsonb_build_object('receipt', value -> 'receipt' || jsonb_build_object('state', new_state, 'at',
        case when new_state <> 'pending' then to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') end)) end)
    from jsonb_each(m.protocols))
  where m.id = wanted_message and m.protocols <> '{}'
$$;`

const SETTLE = `
-- How sending a receipt ended: taken, or with a reason not, and then when it is tried again. Of the failures, the first
-- one is told: it may go on like that for days. False: the claim was lost, and nothing is changed.
create function settle_receipt(wanted bigint, held_fencing bigint, failure text, wait_seconds double precision, line_text text)
returns boolean language plpgsql as $$
declare
  sent receipt_dispatch;
begin
  select * into sent from receipt_dispatch where id = wanted and fencing = held_fencing and lease_owner is not null;
  if not found then return false; end if;
  perform from message where id = sent.message_id for no key update;
  if failure is null then
    delete from receipt_dispatch where id = wanted and fencing = held_fencing and lease_owner is not null;
    if not found then return false; end if;
    insert into history (message_id, kind, text) values (sent.message_id, 'mdn_received', line_text);
    perform move_receipt(sent.message_id, 'pending', 'sent');
  else
    update receipt_dispatch set lease_owner = null, last_error = failure,
      next_attempt_at = least(exchange_time() + make_interval(secs => wait_seconds), expires_at)
    where id = wanted and fencing = held_fencing and lease_owner is not null;
    if not found then return false; end if;
    if sent.last_error is null then
      insert into history (message_id, kind, text) values (sent.message_id, 'mdn_refused', line_text);
    end if;
  end if;
  return true;
end $$;

-- Gives claims back: another one may have them at once. That the partner got something of them is no harm.
create function release_receipts(owner_prefix text) returns integer language plpgsql as $$
declare
  released integer;
begin
  update receipt_dispatch set lease_owner = null, next_attempt_at = least(exchange_time(), expires_at)
  where starts_with(lease_owner, owner_prefix);
  get diagnostics released = row_count;
  return released;
end $$;`

const ADOPT = `
-- Gives this receiver what those owe that do not exist, or are not enabled, any more. Answers how many.
create function adopt_receipts(heir text) returns integer language plpgsql as $$
declare
  adopted integer;
begin
  update receipt_dispatch r set receiver = heir
  where r.receiver <> heir and r.lease_owner is null
    and not exists (select from plugin_configuration p where p.name = r.receiver and p.enabled);
  get diagnostics adopted = row_count;
  return adopted;
end $$;`

const EXPIRE = `
-- Ends what nobody has taken in time. What is being sent is not ended. Answers how many.
create function expire_receipts(batch integer) returns integer language plpgsql as $$
declare
  the_time timestamptz := exchange_time();
  expired  receipt_dispatch;
  ended    integer := 0;
begin
  for expired in
    select r.* from receipt_dispatch r join message m on m.id = r.message_id
    where r.expires_at <= the_time and (r.lease_owner is null or r.next_attempt_at <= the_time)
    order by r.expires_at limit batch
    for no key update of m, r skip locked
  loop
    delete from receipt_dispatch where id = expired.id;
    insert into history (message_id, kind, text) values (expired.message_id, 'mdn_refused',
      'The receipt has expired: the partner did not take it' || coalesce('. ' || expired.last_error, ''));
    if not exists (select from receipt_dispatch where message_id = expired.message_id) then
      perform move_receipt(expired.message_id, 'pending', 'overdue');
    end if;
    ended := ended + 1;
  end loop;
  return ended;
end $$;`

const AGAIN = `
-- Orders the stored receipt of a message to be sent once more. To another place than before only so often at a time: who
-- asks may be anybody who knows the names in a message. False when that is too often.
create function send_receipt_again(
  wanted_message uuid, by_receiver text, to_url text, lasts_seconds double precision, most_places integer
) returns boolean language plpgsql as $$
declare
  the_time timestamptz := exchange_time();
begin
  perform from message where id = wanted_message for no key update;
  if (select count(*) from receipt_dispatch where message_id = wanted_message and md5(url) <> md5(to_url)) >= most_places
  then return false; end if;
  insert into receipt_dispatch as r (message_id, receiver, url, next_attempt_at, expires_at)
  values (wanted_message, by_receiver, to_url, the_time, the_time + make_interval(secs => lasts_seconds))
  on conflict (message_id, md5(url)) do update set expires_at = excluded.expires_at,
    next_attempt_at = case when r.lease_owner is null then least(r.next_attempt_at, the_time) else r.next_attempt_at end;
  perform move_receipt(wanted_message, 'overdue', 'pending');
  return true;
end $$;`
