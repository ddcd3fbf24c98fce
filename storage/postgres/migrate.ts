import { Migrator } from '@mikro-orm/migrations'
import { MikroORM } from '@mikro-orm/postgresql'
import pg from 'pg'
import type { Log } from '../../runtime/log.ts'
import { MIGRATIONS } from '../migrations/index.ts'
import { StorageError } from '../storage-error.ts'
import { ormConfig, poolOf } from './database.ts'
import { query } from './pool.ts'
import { describeUrl, unusable } from './server.ts'

/** Any number that no other program takes on the same database; it must never change. */
const MIGRATION_LOCK = 7_721_940_301
const MIGRATION_TABLE = 'migration'

/**
 * Brings the schema to this version, in one transaction. Any number of processes may call it at once: the first
 * migrates, the others wait for it and find nothing to do. A database that a newer version has migrated is refused.
 */
export async function migrate(target: { readonly url: string; readonly log: Log }): Promise<void> {
  const { url, log } = target
  // An advisory lock belongs to a session: this connection does nothing else, and its end frees the lock.
  const lock = new pg.Client({ connectionString: url, application_name: 'waybill migration lock' })
  lock.on('error', () => undefined)
  await lock.connect().catch((thrown: unknown) => {
    throw unusable(url, thrown)
  })
  try {
    await lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
    await runMigrations(url, log)
  } finally {
    await lock.end()
  }
}

async function runMigrations(url: string, log: Log): Promise<void> {
  const config = ormConfig({ url, poolSize: 2, entities: [], log })
  const orm = new MikroORM({
    ...config,
    // A migration may rewrite a large table: no limit of time.
    driverOptions: { ...config.driverOptions, statement_timeout: 0, Client: pg.Client },
    extensions: [Migrator],
    migrations: {
      tableName: MIGRATION_TABLE,
      migrationsList: MIGRATIONS.map(({ name, migration }) => ({ name, class: migration })),
      // Turning foreign keys off needs a superuser, which a managed database does not give.
      disableForeignKeys: false,
      snapshot: false,
      silent: true,
    },
  })
  try {
    await refuseNewerSchema(await poolOf(orm, url), url)
    for (const { name } of await orm.migrator.up()) log.info({ migration: name }, 'Database migrated')
  } finally {
    await orm.close(true)
  }
}

async function refuseNewerSchema(pool: pg.Pool, url: string): Promise<void> {
  const [found] = await query<{ exists: boolean }>(pool, 'select to_regclass($1) is not null as exists', [
    MIGRATION_TABLE,
  ])
  if (found?.exists !== true) return
  const known = MIGRATIONS.map(({ name }) => name)
  const unknown = await query<{ name: string }>(
    pool,
    `select name from ${MIGRATION_TABLE} where name <> all ($1::text[]) order by id`,
    [known],
  )
  if (unknown.length === 0) return
  throw new StorageError(
    `The database ${describeUrl(url)} was migrated by a newer version of Waybill ` +
      `(${unknown.map(({ name }) => name).join(', ')}); run that version or a newer one`,
  )
}
