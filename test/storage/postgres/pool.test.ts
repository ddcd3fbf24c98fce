import t from 'tap'
import pg from 'pg'
import { createLog } from '../../../runtime/log.ts'
import { openDatabase } from '../../../storage/postgres/database.ts'
import { execute, openPool, query, transaction } from '../../../storage/postgres/pool.ts'
import { checkServer, describeUrl, refuseOld } from '../../../storage/postgres/server.ts'
import { createTestDatabase, openTestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'

const log = createLog('silent')

void t.test('a row has numbers for bigint, Dates for timestamptz and Buffers for bytea', async (t) => {
  const { pool } = await createTestDatabase(t)
  const text = `select 9007199254740991::bigint as id, timestamptz '2026-01-02 03:04:05.678+00' as at, '\\xff00'::bytea as bytes`
  const [row] = await query<{ id: number; at: Date; bytes: Buffer }>(pool, text)
  t.same(row, {
    id: Number.MAX_SAFE_INTEGER,
    at: new Date('2026-01-02T03:04:05.678Z'),
    bytes: Buffer.of(255, 0),
  })
  await t.rejects(
    query(pool, 'select 9007199254740992::bigint as id'),
    /9007199254740992 is not a safe integer/,
  )
  t.same(await query(pool, 'select $1::int as n', [1]), [{ n: 1 }], 'and the connection works on')
})

void t.test('rows are the same on the pool of the ORM', async (t) => {
  const { pool } = await openTestDatabase(t, [])
  const text = `select 7::bigint as id, timestamptz '2026-01-02 03:04:05+00' as at`
  t.same(await query(pool, text), [{ id: 7, at: new Date('2026-01-02T03:04:05Z') }])
})

void t.test('a named statement is prepared once', async (t) => {
  const { url } = await createTestDatabase(t)
  const pool = openPool({ url, size: 1, applicationName: 'test', log })
  t.teardown(() => pool.end())
  for (const n of [1, 2, 3]) t.same(await query(pool, 'select $1::int as n', [n], 'echo'), [{ n }])
  t.same(await query(pool, 'select name, generic_plans + custom_plans as used from pg_prepared_statements'), [
    { name: 'echo', used: 3 },
  ])
})

void t.test('a transaction commits when its work returns and rolls back when it throws', async (t) => {
  const { pool } = await createTestDatabase(t)
  const insert = `insert into partner (name) values ($1)`
  t.equal(await transaction(pool, (client) => execute(client, insert, ['kept'])), 1)
  const failing = transaction(pool, async (client) => {
    await execute(client, insert, ['lost'])
    throw new Error('changed my mind')
  })
  await t.rejects(failing, /changed my mind/)
  t.same(await query(pool, 'select name from partner'), [{ name: 'kept' }])
})

void t.test('a connection that the server ends, idle or taken, harms neither process nor pool', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const end = async (applicationName: string) => {
    await query(
      pool,
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = $1 and datname = current_database()`,
      [applicationName],
    )
  }
  const own = openPool({ url, size: 1, applicationName: 'victim', log })
  t.teardown(() => own.end())
  await query(own, 'select 1')
  await end('victim')
  await until(() => own.totalCount === 0)
  t.same(await query(own, 'select 1 as n'), [{ n: 1 }], 'after an idle one')
  const taken = transaction(own, async (client) => {
    const lost = new Promise((resolve) => client.once('end', resolve))
    await end('victim')
    await lost
    await query(client, 'select 1')
  })
  await t.rejects(taken)
  t.same(await query(own, 'select 1 as n'), [{ n: 1 }], 'after one in a transaction')
})

void t.test('a statement has a limit of time', async (t) => {
  const { url } = await createTestDatabase(t)
  const pool = openPool({ url, size: 1, applicationName: 'test', log })
  t.teardown(() => pool.end())
  t.same(await query(pool, `select current_setting('statement_timeout') as limit`), [{ limit: '8s' }])
})

void t.test('a database that cannot be used is one sentence without its password', async (t) => {
  const url = 'postgres://someone:hidden@127.0.0.1:1/nothing'
  const error = await openDatabase({ url, poolSize: 1, entities: [], log }).catch((thrown: unknown) => thrown)
  t.match(error, {
    name: 'StorageError',
    message: 'The database 127.0.0.1:1/nothing cannot be used: connect ECONNREFUSED 127.0.0.1:1',
  })
  t.equal(describeUrl('postgres://a:b@localhost/c?host=%2Ftmp%2Fd'), '/tmp/d/c')
  const { url: good } = await createTestDatabase(t)
  const wrong = new URL(good)
  wrong.pathname = '/missing'
  const pool = new pg.Pool({ connectionString: wrong.href })
  t.teardown(() => pool.end())
  await t.rejects(checkServer(pool, wrong.href), /^The database .*database "missing" does not exist$/)
})

void t.test('a server older than PostgreSQL 15 is refused', async (t) => {
  const url = 'postgres://a:b@db.example:5433/c'
  t.throws(() => refuseOld(url, { number: 140_017, text: '14.17' }), {
    message: 'The database db.example:5433/c runs PostgreSQL 14.17; Waybill needs 15 or newer',
  })
  t.doesNotThrow(() => refuseOld(url, { number: 150_000, text: '15.0' }))
})
