import { randomBytes } from 'node:crypto'
import type { Pool } from 'pg'
import { createLog, type Log } from '../../runtime/log.ts'
import { openDatabase, type Database, type Entities } from '../../storage/postgres/database.ts'
import { openPool } from '../../storage/postgres/pool.ts'
import { testServer } from './database-server.ts'

/** The part of a tap test that we use: what is registered last runs first. */
export interface Teardown {
  readonly teardown: (action: () => Promise<void>) => unknown
}

/** A migrated database that belongs to one test. */
export interface TestDatabase {
  readonly url: string
  readonly pool: Pool
  readonly log: Log
}

const POOL_SIZE = 10
/** A test's own statements may be large, and the machine busy. */
const STATEMENT_LIMIT_MS = 120_000

/** Makes a database of its own for the test, as a copy of one that was migrated once, and drops it at its end. */
export async function createTestDatabase(t: Teardown): Promise<TestDatabase> {
  const url = await copyDatabase(t, 'template waybill')
  const log = createLog(process.env['LOG_LEVEL'] ?? 'silent')
  const pool = openPool({
    url,
    size: POOL_SIZE,
    applicationName: 'waybill test',
    log,
    statementLimitMs: STATEMENT_LIMIT_MS,
  })
  t.teardown(() => pool.end())
  return { url, pool, log }
}

/** The same with the ORM: the entities that the test's repositories use. */
export async function openTestDatabase(t: Teardown, entities: Entities): Promise<Database> {
  const url = await copyDatabase(t, 'template waybill')
  const log = createLog(process.env['LOG_LEVEL'] ?? 'silent')
  const database = await openDatabase({ url, poolSize: POOL_SIZE, entities, log })
  t.teardown(() => database.close())
  return database
}

/** The URL of a new database without any table. */
export function createEmptyDatabase(t: Teardown): Promise<string> {
  return copyDatabase(t, '')
}

async function copyDatabase(t: Teardown, template: string): Promise<string> {
  const server = await testServer()
  const name = `test_${process.pid}_${randomBytes(6).toString('hex')}`
  await administer(server.superuserUrl, `create database ${name} ${template} owner waybill`)
  t.teardown(() => administer(server.superuserUrl, `drop database if exists ${name} with (force)`))
  const url = new URL(server.url)
  url.pathname = `/${name}`
  return url.href
}

async function administer(url: string, statement: string): Promise<void> {
  const pool = openPool({
    url,
    size: 1,
    applicationName: 'waybill test',
    log: createLog('silent'),
    statementLimitMs: STATEMENT_LIMIT_MS,
  })
  try {
    await pool.query(statement)
  } finally {
    await pool.end()
  }
}
