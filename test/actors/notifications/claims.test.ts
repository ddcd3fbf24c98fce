import t from 'tap'
import { query } from '../../../storage/postgres/pool.ts'
import { passTime } from '../../storage/exchange/fixture.ts'
import { claimOne } from '../../storage/alerts/fixture.ts'
import { until } from '../../support/processes.ts'
import { answering, startWebServer, take } from '../http/web-server.ts'
import { LIMIT_MS, startNotifying, told } from './notifying.ts'

/** What a notifier has claimed, while its connections break and its webhook lets it wait. */

t.setTimeout(900_000)

const notifying = await startNotifying(t)
const web = await startWebServer(t)
const { pool } = notifying.api.database

t.test('a connection that is lost just after a claim costs neither time nor an attempt', async (t) => {
  await notifying.configure(t, 'cut', { url: `${web.url}/cut`, retry_max_attempts: 1 })
  await notifying.raise('a')
  const locking = await pool.connect()
  await locking.query('begin')
  // What is claimed is read from there, after the claim was committed.
  await locking.query('lock table alert in access exclusive mode')
  await notifying.start('cut')
  const reading = `from pg_stat_activity
    where datname = current_database() and application_name = 'waybill cut' and wait_event_type = 'Lock'`
  await until(async () => (await query(pool, `select ${reading}`)).length === 1, LIMIT_MS)
  const claims = await query<{ attempts: number }>(
    pool,
    `select attempts from notification where instance = 'cut' and lease_owner is not null`,
  )
  t.same(claims, [{ attempts: 1 }])
  await query(pool, `select pg_terminate_backend(pid) ${reading}`)
  await locking.query('commit')
  locking.release()
  const [row] = await notifying.untilOutcomes('cut', 'delivered')
  t.match(row, { attempts: 1, last_error: null })
  t.same(told(web.received('/cut')), ['a'])
})

t.test('a webhook that lets us wait keeps its post ours, for seconds after each look', async (t) => {
  await notifying.configure(t, 'slow', { url: `${web.url}/slow` })
  const held = Promise.withResolvers<void>()
  web.behave('/slow', async (request, response, received) => {
    await take(request, received)
    await held.promise
    response.end()
  })
  await notifying.start('slow')
  await notifying.raise('a')
  await until(() => web.received('/slow').length === 1, LIMIT_MS)
  const seconds = async (): Promise<number> => {
    const [row] = await query<{ seconds: number }>(
      pool,
      `select extract(epoch from lease_until - exchange_time())::float8 as seconds from notification
       where instance = 'slow'`,
    )
    return row?.seconds ?? 0
  }
  t.ok((await seconds()) <= 20, 'a node that dies holds it no longer')
  for (const _ of [1, 2, 3]) {
    await passTime(pool, 15)
    await until(async () => (await seconds()) > 15, LIMIT_MS)
  }
  t.equal((await claimOne(pool, { instance: 'slow', owner: 'other/slow/run/1' })).post, null)
  web.behave('/slow', answering(200))
  held.resolve()
  const [row] = await notifying.untilOutcomes('slow', 'delivered')
  t.match(row, { attempts: 1 })
  t.equal(web.received('/slow').length, 1)
})
