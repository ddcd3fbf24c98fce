import { defineConfig, MikroORM, type EntityClass, type EntitySchema } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Log } from '../../runtime/log.ts'
import { StorageError } from '../storage-error.ts'
import { connectionSettings } from './pool.ts'
import { checkServer, unusable } from './server.ts'

export type Entities = readonly (EntitySchema | EntityClass<object>)[]

export interface DatabaseOptions {
  readonly url: string
  /** Connections at most, shared by the ORM and hot statements. */
  readonly poolSize: number
  /** Every entity that a repository of this process uses. */
  readonly entities: Entities
  readonly log: Log
  /** As `pg_stat_activity` shows it. */
  readonly applicationName?: string
}

/** The records: ordinary ones through the ORM, hot ones through `query()` of pool.ts on the same connections. */
export interface Database {
  readonly url: string
  readonly log: Log
  readonly orm: MikroORM
  readonly pool: Pool
  /** Waits for statements in hand, then closes all connections. */
  readonly close: () => Promise<void>
}

/** Connects. Throws a StorageError when the server cannot be reached or is too old. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { url, log } = options
  const orm = new MikroORM(ormConfig(options))
  try {
    const pool = await poolOf(orm, url)
    await checkServer(pool, url)
    return { url, log, orm, pool, close: () => orm.close(true) }
  } catch (thrown) {
    await orm.close(true)
    throw thrown
  }
}

/** The connections of the ORM, for hot statements. It connects. */
export async function poolOf(orm: MikroORM, url: string): Promise<Pool> {
  try {
    return await orm.em.getConnection().getNativeClient()
  } catch (thrown) {
    throw unusable(url, thrown)
  }
}

/** The ORM as we always use it: entities are given, nothing is looked for on disk, cached or reflected. */
export function ormConfig(options: DatabaseOptions) {
  const { url, poolSize, entities, log, applicationName = 'waybill' } = options
  return defineConfig({
    entities: [...entities],
    dbName: databaseName(url),
    driverOptions: connectionSettings({ url, size: poolSize, applicationName }),
    discovery: { warnWhenNoEntities: false },
    metadataCache: { enabled: false },
    preferEnvVars: false,
    logger: (message) => log.debug({ orm: true }, message),
    colors: false,
    debug: ['info'],
  })
}

function databaseName(url: string): string {
  const name = decodeURIComponent(new URL(url).pathname.slice(1))
  if (name === '') throw new StorageError('The database URL names no database')
  return name
}
