import { Migration } from '@mikro-orm/migrations'

/** Which node does what only one may do at a time, such as a poller with its folder; see `storage/exchange/leases.ts`. */
export class Leases extends Migration {
  override up(): void {
    this.addSql(`
create table lease (
  name    text primary key check (length(name) between 1 and 200),
  owner   text not null,
  -- Counts the owners: who comes with an older number has lost it.
  fencing bigint not null default 1 check (fencing > 0),
  until   timestamptz not null
) with (fillfactor = 50);`)
  }
}
