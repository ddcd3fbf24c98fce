import t from 'tap'
import type { Pool } from 'pg'
import { createLog } from '../../../runtime/log.ts'
import { alertRound } from '../../../storage/alerts/alert-round.ts'
import { raiseTest } from '../../../storage/alerts/notification-log.ts'
import { tick } from '../../../storage/sql/maintain.ts'
import { createTestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'
import { passTime } from '../exchange/fixture.ts'
import { claimed, claimOne, notifier, raise, rowsOf } from './fixture.ts'

/** Nothing waits for a notifier that is gone, nor goes to the next of its name. */

t.setTimeout(300_000)

const DELETE = `delete from plugin_configuration where name = 'hook'`
const RAISE = `select raise_alert('critical', 'delivery_failed', 'message', 'id', 'name', 'It failed', 'Why', 'a/b', null)`
const GONE = { outcome: 'failed', last_error: 'The notifier was deleted' }

/** When a statement like this waits for a lock of another one. */
function waiting(pool: Pool, like: string): Promise<void> {
  return until(async () => {
    const { rows } = await pool.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like $1`,
      [like],
    )
    return rows.length > 0
  }, 120_000)
}

t.test('a test that is asked for while its notifier is being deleted finds none', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  const deleting = await pool.connect()
  await deleting.query('begin')
  await deleting.query(DELETE)
  const testing = raiseTest(pool, 'hook')
  await waiting(pool, 'select raise_test%')
  await deleting.query('commit')
  deleting.release()
  t.equal(await testing, null)
  t.same(await rowsOf(pool), [])
})

t.test('a notifier that is deleted while a test of it is made ends that, too', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  const testing = await pool.connect()
  await testing.query('begin')
  await testing.query(`select raise_test('hook')`)
  const deleting = pool.query(DELETE)
  await waiting(pool, 'delete from plugin_configuration%')
  await testing.query('commit')
  testing.release()
  await deleting
  t.match(await rowsOf(pool), [GONE])
})

t.test('a test without a notifier does not wait for ever', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  await notifier(pool, 'other')
  await raiseTest(pool, 'hook')
  await raiseTest(pool, 'other')
  // As a version before this one may have left it.
  await pool.query('alter table plugin_configuration disable trigger notifier_deleted')
  await pool.query(DELETE)
  await tick(pool, 'node-1', 3_600)
  await alertRound({ pool, log: createLog('silent'), nodeId: 'node-1' })
  t.match(await rowsOf(pool), [GONE])
  t.match(await rowsOf(pool, 'other'), [{ outcome: 'queued' }])
})

t.test(
  'an alert of an event that its notifier did not see the end of is not for the next of that name',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await notifier(pool, 'hook')
    const event = await pool.connect()
    await event.query('begin')
    await event.query(RAISE)
    await pool.query(DELETE)
    await event.query('commit')
    event.release()
    t.match(await rowsOf(pool), [{ outcome: 'queued' }])
    await notifier(pool, 'hook')
    t.match(await rowsOf(pool), [GONE])
    t.equal((await claimOne(pool)).post, null)
    await raise(pool)
    t.match(await rowsOf(pool), [GONE, { outcome: 'queued' }])
  },
)

for (const [kind, request] of [
  ['by itself', {}],
  ['with a group', { groupSeconds: 60 }],
  ['within a cooldown', { cooldownSeconds: 900 }],
] as const) {
  t.test(`nor is one that is committed when the next of that name is there, ${kind}`, async (t) => {
    const { pool } = await createTestDatabase(t)
    await notifier(pool, 'hook')
    const event = await pool.connect()
    await event.query('begin')
    await event.query(RAISE)
    await pool.query(DELETE)
    await notifier(pool, 'hook')
    await event.query('commit')
    event.release()
    await passTime(pool, 61)
    t.equal((await claimOne(pool, request)).post, null)
    t.match(await rowsOf(pool), [GONE])
    await raise(pool)
    await passTime(pool, 61)
    t.match(await claimed(pool, request), { count: 1, alerts: { length: 1 } })
    t.match(await rowsOf(pool), [GONE, { outcome: 'queued', attempts: 1 }])
  })
}
