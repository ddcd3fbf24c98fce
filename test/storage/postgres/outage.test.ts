import t from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import { createLog } from '../../../runtime/log.ts'
import { NotificationListener } from '../../../storage/postgres/listener.ts'
import { openPool, query, transaction } from '../../../storage/postgres/pool.ts'
import { isUnavailable } from '../../../storage/postgres/unavailable.ts'
import { createTestDatabase } from '../../support/database.ts'
import { databaseProxy } from '../../support/database-proxy.ts'
import { until } from '../../support/processes.ts'

const log = createLog('silent')
const LIMIT_MS = 60_000

t.setTimeout(180_000)

/** What a statement fails with; it must fail. */
async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'it did not fail',
    (thrown: unknown) => thrown,
  )
}

t.test(
  'a statement on a connection that was lost without a word fails, and the pool is whole again',
  async (t) => {
    const { url } = await createTestDatabase(t)
    const proxy = await databaseProxy(t, url)
    const pool = openPool({ url: proxy.url, size: 2, applicationName: 'test', log, statementLimitMs: 3_000 })
    t.teardown(() => pool.end())
    const begun = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const inTransaction = failure(
      transaction(pool, async (client) => {
        await query(client, 'select 1')
        begun.resolve()
        await goOn.promise
        await query(client, 'select 2')
      }),
    )
    await begun.promise
    await query(pool, 'select 1')
    proxy.fallSilent()
    goOn.resolve()
    const failures = [await failure(query(pool, 'select 3')), await inTransaction]
    for (const thrown of failures) {
      t.match(thrown, { message: /^The database gave no answer/ })
      t.ok(isUnavailable(thrown))
    }
    // A new connection is taken by the network and never answered.
    t.ok(isUnavailable(await failure(query(pool, 'select 4'))))
    proxy.speak()
    const answers = await Promise.all([query(pool, 'select 5 as n'), query(pool, 'select 5 as n')])
    t.same(answers, [[{ n: 5 }], [{ n: 5 }]])
  },
)

t.test('a statement that takes its time is left alone as long as the limit allows', async (t) => {
  const { url } = await createTestDatabase(t)
  const pool = openPool({ url, size: 1, applicationName: 'test', log, statementLimitMs: 60_000 })
  t.teardown(() => pool.end())
  t.same(await query(pool, 'select 1 as n from pg_sleep(2)'), [{ n: 1 }])
  const short = openPool({ url, size: 1, applicationName: 'test', log, statementLimitMs: 500 })
  t.teardown(() => short.end())
  const thrown = await failure(query(short, 'select pg_sleep(60)'))
  t.ok(isUnavailable(thrown), 'no longer')
})

t.test('what the statement is to blame for is no outage', async (t) => {
  const { pool } = await createTestDatabase(t)
  for (const text of ['select 1 / 0', 'select nothing', 'insert into organization (name) values (null)'])
    t.notOk(isUnavailable(await failure(query(pool, text))), text)
  t.notOk(isUnavailable(new Error('anything')))
  t.notOk(isUnavailable(undefined))
})

t.test(
  'notifications are heard, and after a time without connection everybody is told to look',
  async (t) => {
    const { url, pool } = await createTestDatabase(t)
    const proxy = await databaseProxy(t, url)
    const listener = NotificationListener.start({
      url: proxy.url,
      clock: systemClock,
      log,
      checkEveryMs: 100,
    })
    t.teardown(() => listener.stop())
    const heard: (string | null)[] = []
    const others: (string | null)[] = []
    listener.subscribe('test channel', (payload) => heard.push(payload))
    const looks = () => heard.filter((payload) => payload === null).length
    await until(() => looks() === 1, LIMIT_MS)
    // One that comes while the connection stands.
    const leave = listener.subscribe('other', (payload) => others.push(payload))
    await until(() => others.length === 1, LIMIT_MS)
    const notify = (channel: string, text: string) => query(pool, 'select pg_notify($1, $2)', [channel, text])
    await notify('test channel', 'one')
    await notify('other', 'two')
    await until(() => heard.includes('one') && others.includes('two'), LIMIT_MS)

    await proxy.close()
    await proxy.open()
    await until(() => looks() === 2, LIMIT_MS)
    t.pass('after a connection that was closed')
    proxy.fallSilent()
    await notify('test channel', 'lost')
    proxy.speak()
    await until(() => looks() === 3, LIMIT_MS)
    t.pass('after one that was lost without a word')
    t.notOk(heard.includes('lost'))

    leave()
    const before = others.length
    await notify('other', 'three')
    await notify('test channel', 'four')
    await until(() => heard.includes('four'), LIMIT_MS)
    t.equal(others.length, before, 'who left hears nothing')
  },
)
