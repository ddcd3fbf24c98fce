import { Migration } from '@mikro-orm/migrations'

/** The audit log, the head of its chain, and the head that its last verification found. */
export class Audit extends Migration {
  override up(): void {
    this.addSql(EVENTS)
    this.addSql(INDEXES)
    this.addSql(HEAD)
    this.addSql(TAKE_HEAD)
    this.addSql(WITNESS)
  }
}

/**
 * No event is ever changed or removed, whoever asks: the triggers fire for the owner too, and also in a session that
 * replicates. Only who may change the schema can get around them, and then the chain tells.
 */
const EVENTS = `
create sequence audit_event_id as bigint;

create table audit_event (
  id          bigint primary key default nextval('audit_event_id'),
  v           smallint not null default 1,
  -- To the millisecond: the hash covers what an answer shows.
  at          timestamptz(3) not null default date_trunc('milliseconds', clock_timestamp()),
  actor       text not null,
  action      text not null,
  kind        text not null,
  record_id   text,
  record_name text not null,
  -- json, not jsonb: it keeps the very text that the hash covers.
  changes     json not null,
  -- Lower case hexadecimal; empty without a key.
  prev_hash   text not null default '',
  hash        text not null default ''
);
alter sequence audit_event_id owned by audit_event.id;

create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception '%: % is refused, the audit log only grows', tg_table_name, tg_op
    using errcode = 'insufficient_privilege';
end $$;
create trigger only_grows before update or delete or truncate on audit_event
  for each statement execute function refuse_audit_change();
alter table audit_event enable always trigger only_grows;`

/** A list is newest first, and each of its filters goes with a period: so each index ends with the time and the id. */
const INDEXES = `
create index audit_event_kind on audit_event (kind, at, id);
create index audit_event_record on audit_event (record_id, at, id);
create index audit_event_record_name on audit_event (record_name, at, id);
create index audit_event_actor on audit_event (actor, at, id);
create index audit_event_action on audit_event (action, at, id);
create index audit_event_at on audit_event (at, id);`

/** Ids of 0 and empty hashes: there is no chain yet. The MAC tells a head that somebody without the key has written. */
const HEAD = `
create table audit_head (
  only_record boolean primary key default true check (only_record),
  first_id    bigint not null default 0,
  last_id     bigint not null default 0,
  hash        text not null default '',
  mac         text not null default ''
);
insert into audit_head default values;

create function guard_audit_head() returns trigger language plpgsql as $$
begin
  if new.last_id <= old.last_id or (old.first_id <> 0 and new.first_id <> old.first_id) then
    raise exception 'audit_head: the audit log only grows' using errcode = 'insufficient_privilege';
  end if;
  return new;
end $$;
create trigger only_advances before update on audit_head for each row execute function guard_audit_head();
create trigger stays before delete or truncate on audit_head
  for each statement execute function refuse_audit_change();
alter table audit_head enable always trigger only_advances;
alter table audit_head enable always trigger stays;`

/**
 * Locks the head and only then takes the next id and the time: the order of the ids is the order of the chain, whoever
 * writes at once and whatever is rolled back. One statement could take the id before it has waited for the lock.
 */
const TAKE_HEAD = `
create function take_audit_head(out first_id bigint, out hash text, out id bigint, out at text)
language plpgsql as $$
begin
  select h.first_id, h.hash into first_id, hash from audit_head h for update;
  if not found then raise exception 'audit_head: the head of the audit chain is missing'; end if;
  id := nextval('audit_event_id');
  at := to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
end $$;`

const WITNESS = `
create table audit_witness (
  only_record boolean primary key default true check (only_record),
  head_id     bigint not null default 0,
  head_hash   text not null default '',
  mac         text not null default '',
  verified_at timestamptz
);
insert into audit_witness default values;

create function guard_audit_witness() returns trigger language plpgsql as $$
begin
  if new.head_id < old.head_id then
    raise exception 'audit_witness: the audit log only grows' using errcode = 'insufficient_privilege';
  end if;
  return new;
end $$;
create trigger only_advances before update on audit_witness for each row execute function guard_audit_witness();
create trigger stays before delete or truncate on audit_witness
  for each statement execute function refuse_audit_change();
alter table audit_witness enable always trigger only_advances;
alter table audit_witness enable always trigger stays;`
