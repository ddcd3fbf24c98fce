import { Migration } from '@mikro-orm/migrations'

/**
 * How far the history is final: ids come from a sequence when a line is written, and their transactions commit in any
 * order, or not at all.
 *
 * A transaction that takes an id from a sequence locks the sequence before it does (RowExclusiveLock), and lets go when
 * it has ended and its end is visible to all. So every id up to the last one that was handed out is either final or
 * belongs to a transaction that still holds that lock, and when those have ended, all these ids are final. Nothing is
 * added to the statements that write. Transactions that write no history, a backup, a report, a deletion, a new index,
 * hold no such lock, however long they take.
 */
export class Events extends Migration {
  override up(): void {
    this.addSql(HORIZON)
  }
}

const HORIZON = `
-- The last id that was handed out, and the transactions that may hold ids up to it which are not final yet. The order
-- of the two reads matters. Without a change since \`known\` nobody is looked for. Volatile: each statement sees anew.
create function history_horizon(known bigint, out handed_out bigint, out writers text[]) volatile language plpgsql as $$
begin
  select case when is_called then last_value else 0 end into handed_out from history_id_seq;
  if handed_out = known then return; end if;
  select coalesce(array_agg(l.virtualtransaction), '{}') into writers from pg_locks l
  where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
    and l.relation = 'history_id_seq'::regclass
    and l.database = (select d.oid from pg_database d where d.datname = current_database());
end $$;`
