import { Migration } from '@mikro-orm/migrations'

/**
 * What the figures of the last day and week are read from, so that they take milliseconds however many messages and
 * history lines there are.
 *
 * Messages are counted by minute and direction as they come. Every statement that stores some notes their number as
 * a row of its own, so that none waits for another; a round of the process folds the notes into one row a minute. Who
 * asks adds up both in one snapshot. Without the counts, a million messages in a day take a second to count, and with
 * an index made for it a seventh of one, at the same price for each new message.
 */
export class Stats extends Migration {
  override up(): void {
    for (const sql of [ACCEPTANCES, NOTE, FOLD, FAILURES, BEGIN]) this.addSql(sql)
  }
}

const ACCEPTANCES = `
create table acceptance_count (
  minute    timestamptz not null,
  direction text not null,
  n         bigint not null,
  primary key (minute, direction)
);

-- What is not folded yet. It has no key: it is short, and always read whole.
create table acceptance_note (
  minute    timestamptz not null,
  direction text not null,
  n         bigint not null
);
alter table acceptance_note set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);`

const NOTE = `
create function note_acceptances() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into acceptance_note
    select date_trunc('minute', created_at, 'UTC'), direction, count(*) from changed_rows group by 1, 2;
  else
    insert into acceptance_note
    select date_trunc('minute', created_at, 'UTC'), direction, -count(*) from changed_rows group by 1, 2;
  end if;
  return null;
end $$;

create trigger message_accepted after insert on message
  referencing new table as changed_rows for each statement execute function note_acceptances();
create trigger message_removed after delete on message
  referencing old table as changed_rows for each statement execute function note_acceptances();

create function forget_acceptances() returns trigger language plpgsql as $$
begin
  delete from acceptance_note;
  delete from acceptance_count;
  return null;
end $$;
create trigger message_acceptances_forgotten after truncate on message
  for each statement execute function forget_acceptances();`

const FOLD = `
-- Folds at most so many notes into the counts, and removes counts that nobody asks for any more. Answers how many notes
-- it folded. One folds at a time.
create function fold_acceptances(most integer) returns integer language plpgsql as $$
declare
  folded integer;
begin
  if not pg_try_advisory_xact_lock(7721940331) then return 0; end if;
  with taken as (
    delete from acceptance_note where ctid = any (array(select ctid from acceptance_note limit most)) returning *
  ), added as (
    insert into acceptance_count as c (minute, direction, n)
    select minute, direction, sum(n) from taken group by 1, 2
    on conflict (minute, direction) do update set n = c.n + excluded.n
  )
  select count(*) into folded from taken;
  delete from acceptance_count where minute < now() - interval '8 days';
  return folded;
end $$;`

const FAILURES = `
-- Messages that reached a status which somebody has to look at.
create index history_failed on history (created_at, message_id) where new_status in ('Error', 'Stalled');`

const BEGIN = `
insert into acceptance_count (minute, direction, n)
select date_trunc('minute', created_at, 'UTC'), direction, count(*)
from message where created_at >= now() - interval '8 days' group by 1, 2;`
