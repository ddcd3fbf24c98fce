import t from 'tap'
import { createLog } from '../../../runtime/log.ts'
import { MIGRATIONS } from '../../../storage/migrations/index.ts'
import { migrate } from '../../../storage/postgres/migrate.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import { createEmptyDatabase, createTestDatabase } from '../../support/database.ts'
import { runScript } from '../../support/processes.ts'

const log = createLog('silent')
const names = MIGRATIONS.map(({ name }) => ({ name }))

void t.test('a fresh database is migrated, and a second time nothing happens', async (t) => {
  const url = await createEmptyDatabase(t)
  const pool = openPool({ url, size: 1, applicationName: 'test', log })
  t.teardown(() => pool.end())
  await migrate({ url, log })
  await migrate({ url, log })
  t.same(await query(pool, 'select name from migration order by id'), names)
  t.same(await query(pool, 'select storage_backend, delivery_max_dispatches from settings'), [
    { storage_backend: 'local', delivery_max_dispatches: 5 },
  ])
})

void t.test('two processes that migrate at once both succeed', async (t) => {
  const url = await createEmptyDatabase(t)
  const scripts = [1, 2].map(() => runScript(t, 'migrate-child.ts', [url]))
  t.same(await Promise.all(scripts.map((script) => script.line())), ['migrated', 'migrated'])
  const pool = openPool({ url, size: 1, applicationName: 'test', log })
  t.teardown(() => pool.end())
  t.same(await query(pool, 'select name from migration order by id'), names)
})

void t.test('a database of a newer version is refused and left as it is', async (t) => {
  const { url, pool } = await createTestDatabase(t)
  await query(pool, `insert into migration (name) values ('999-from-the-future')`)
  await t.rejects(migrate({ url, log }), {
    name: 'StorageError',
    message: /was migrated by a newer version of Waybill \(999-from-the-future\)/,
  })
})

void t.test('an unreachable database is one sentence', async (t) => {
  await t.rejects(migrate({ url: 'postgres://a:hidden@127.0.0.1:1/b', log }), {
    name: 'StorageError',
    message: 'The database 127.0.0.1:1/b cannot be used: connect ECONNREFUSED 127.0.0.1:1',
  })
})
