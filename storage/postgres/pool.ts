import pg, { type Pool, type PoolClient, type PoolConfig, type QueryConfig } from 'pg'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { boundedClient } from './bounded-client.ts'
import { columnTypes } from './column-types.ts'
import { isUnavailable } from './unavailable.ts'

/** What a statement runs on: any free connection of a pool, or the one that holds a transaction. */
export type Queryable = Pool | PoolClient

export interface PoolOptions {
  /** `postgres://user:password@host:port/database`; a `host` parameter names the directory of a Unix socket. */
  readonly url: string
  /** Connections at most. */
  readonly size: number
  /** As `pg_stat_activity` shows it; at most 63 bytes count. */
  readonly applicationName: string
  readonly log: Log
  /** How long one statement may take; a little later its connection is given up. */
  readonly statementLimitMs?: number
}

/** To wait for a free connection; for a new one there is less time, see bounded-client.ts. */
const CONNECT_TIMEOUT_MS = 8_000
/** Far more than ours take, and little enough for work to go on soon after a connection was lost without a word. */
const STATEMENT_LIMIT_MS = 8_000
/** The server ends a statement that takes too long: its word is certain. Only when that does not come, we give up. */
const SILENCE_AFTER_LIMIT_MS = 1_000
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000
const KEEP_ALIVE_MS = 5_000

/** The server notices a client that is gone without a word, and lets go of its locks. Without effect on Unix sockets. */
const SERVER_SETTINGS =
  '-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 -c tcp_user_timeout=15000'

/** The settings that all our connections share, whoever makes the pool. */
export function connectionSettings(options: Omit<PoolOptions, 'log'>): PoolConfig {
  const { url, size, applicationName, statementLimitMs = STATEMENT_LIMIT_MS } = options
  return {
    connectionString: url,
    max: size,
    application_name: applicationName,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: statementLimitMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    options: SERVER_SETTINGS,
    Client: boundedClient(statementLimitMs + SILENCE_AFTER_LIMIT_MS),
  }
}

/**
 * Hot statements are written so that one plan, by indexes, serves all values. Planned anew each time, as PostgreSQL
 * otherwise prefers for some, a settlement of one delivery takes 1.24 ms of CPU instead of 0.91; and a plan made while
 * a table is empty and not yet analysed would scan it for as long as the connection lives.
 */
const HOT_STATEMENTS = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off'

/** A pool without the ORM, for hot statements. It connects with the first statement. */
export function openPool(options: PoolOptions): Pool {
  const pool = new pg.Pool({
    ...connectionSettings(options),
    types: columnTypes,
    options: `${SERVER_SETTINGS} ${HOT_STATEMENTS}`,
  })
  surviveLostConnections(pool, options.log)
  return pool
}

/**
 * A connection that the server drops is an `error` event, of the pool while it is idle and of the client while it
 * is taken; without a listener it ends the process. The statement in hand rejects by itself, and the pool replaces
 * the connection.
 */
function surviveLostConnections(pool: Pool, log: Log): void {
  pool.on('connect', (client) => {
    client.on('error', (error) => log.debug({ reason: reasonOf(error) }, 'Database connection lost'))
  })
  pool.on('error', (error) => {
    if (!pool.ending) log.warn({ reason: reasonOf(error) }, 'Idle database connection lost')
  })
}

/**
 * Runs one statement and answers its rows. `bigint` columns are numbers, `timestamptz` columns are Dates, on every
 * pool (the ORM's own pool reads dates as text otherwise).
 *
 * @param name makes it a prepared statement: the server parses it once a connection. One name, one text.
 */
export async function query<Row extends object>(
  on: Queryable,
  text: string,
  values: readonly unknown[] = [],
  name?: string,
): Promise<Row[]> {
  const result = await on.query<Row>(statement(text, values, name))
  return result.rows
}

/** Runs one statement and answers how many rows it changed. */
export async function execute(
  on: Queryable,
  text: string,
  values: readonly unknown[] = [],
  name?: string,
): Promise<number> {
  const result = await on.query(statement(text, values, name))
  return result.rowCount ?? 0
}

function statement(text: string, values: readonly unknown[], name: string | undefined): QueryConfig {
  const config: QueryConfig = { text, values: [...values], types: columnTypes }
  return name === undefined ? config : { ...config, name }
}

/**
 * Runs `work` in one transaction: commits when it returns, rolls back when it throws. A connection that cannot even
 * roll back leaves the pool.
 *
 * @param mode of the transaction, as `begin` takes it; left out: the server's default.
 */
export async function transaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  mode: '' | 'isolation level repeatable read read only' = '',
): Promise<T> {
  const client = await pool.connect()
  let broken = false
  try {
    await client.query(`begin ${mode}`)
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (thrown) {
    await client.query('rollback').catch(() => {
      broken = true
    })
    broken ||= isUnavailable(thrown)
    throw thrown
  } finally {
    client.release(broken)
  }
}
