import t from 'tap'
import type { Pool } from 'pg'
import {
  listNotifications,
  notificationOf,
  OUTCOMES,
  raiseTest,
  type NotificationFilter,
} from '../../../storage/alerts/notification-log.ts'
import { raisePluginFailed } from '../../../storage/alerts/raise-plugin-failed.ts'
import { settlePost } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { alertsOf, claimed, notifier, raise, rowsOf } from './fixture.ts'

t.setTimeout(300_000)

const ALL = { limit: 100, offset: 0 }

async function listed(pool: Pool, filter: NotificationFilter = {}) {
  const { items, total } = await listNotifications(pool, filter, ALL)
  if (items.length !== total) throw new Error(`${items.length} of ${total} are listed`)
  return items.map(({ id }) => id)
}

t.test('3.6: a row moves from queued to its outcome, a grouped one may fail, and nothing else', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  const allowed = new Set([
    'queued>delivered',
    'queued>failed',
    'queued>suppressed_cooldown',
    'queued>grouped',
    'grouped>failed',
  ])
  for (const from of OUTCOMES) {
    for (const to of OUTCOMES.filter((each) => each !== from)) {
      await raise(pool)
      const id = (await rowsOf(pool)).at(-1)?.id
      const move = (outcome: string) =>
        pool.query(
          `update notification set outcome = $2, carrier_id = id,
             posted_at = case when $2 = 'delivered' then now() end,
             delivered_at = case when $2 = 'delivered' then now() end where id = $1`,
          [id, outcome],
        )
      if (from !== 'queued') await move(from)
      if (allowed.has(`${from}>${to}`)) await t.resolves(move(to), `${from} to ${to}`)
      else await t.rejects(move(to), { code: '23514' }, `${from} to ${to}`)
    }
  }
})

t.test('2.14: one row per alert and notifier, newest alert first', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  await notifier(pool, 'second', { format: 'teams' })
  for (const repeats of ['a/1', 'a/2']) await raise(pool, { repeats })
  // As when transactions commit in another order than they began.
  await pool.query(`update notification n set alert_time = a.alert_time - interval '1 hour'
    from alert a where a.id = n.alert_id and a.dedupe_key like '%/2'`)
  const { items, total } = await listNotifications(pool, {}, { limit: 3, offset: 0 })
  t.equal(total, 4)
  t.same(
    items.map(({ dedupe_key, instance, format }) => [dedupe_key, instance, format]),
    [
      ['delivery_failed/a/1', 'second', 'teams'],
      ['delivery_failed/a/1', 'hook', 'generic'],
      ['delivery_failed/a/2', 'second', 'teams'],
    ],
  )
  t.same((await listNotifications(pool, {}, { limit: 3, offset: 9 })).items, [])
  t.equal((await listNotifications(pool, {}, { limit: 3, offset: 9 })).total, 4)
})

t.test('a row has every field of 2.14', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  await raise(pool)
  await settlePost(pool, await claimed(pool), {
    outcome: 'retry',
    error: 'HTTP 503',
    delaySeconds: 0,
    restSeconds: 0,
  })
  await settlePost(pool, await claimed(pool), { outcome: 'delivered' })
  const [alert] = await alertsOf(pool)
  const [row] = await rowsOf(pool)
  const found = await notificationOf(pool, row?.id ?? 0)
  t.same(found, {
    id: row?.id,
    alert_id: alert?.id,
    alert_time: alert?.alert_time,
    severity: 'critical',
    code: 'delivery_failed',
    subject_kind: 'message',
    subject_id: 'id',
    subject_name: 'name',
    summary: 'It failed',
    details: 'Why',
    dedupe_key: 'delivery_failed/a/b',
    link_path: '/api/v1/messages/id',
    instance: 'hook',
    format: 'generic',
    test: false,
    outcome: 'delivered',
    attempts: 2,
    last_error: null,
    created_at: found?.created_at,
    delivered_at: found?.delivered_at,
  })
  t.type(found?.delivered_at, Date)
  t.same((await listNotifications(pool, {}, ALL)).items, [found])
  t.equal(await notificationOf(pool, 999_999), null)
})

t.test('the filters of the list combine, and tests are hidden unless asked for', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  await notifier(pool, 'second')
  await raise(pool, { severity: 'warning', code: 'message_refused' })
  await raise(pool)
  const test = await raiseTest(pool, 'hook')
  const [refusedHook, refusedSecond, failedHook, failedSecond] = (
    await pool.query<{ id: number }>('select id from notification where not test order by id')
  ).rows.map(({ id }) => id)
  const found = (filter: NotificationFilter) => listed(pool, filter)
  t.same(await found({}), [failedSecond, failedHook, refusedSecond, refusedHook])
  t.same(await found({ include_tests: false }), [failedSecond, failedHook, refusedSecond, refusedHook])
  t.same(await found({ include_tests: true }), [test, failedSecond, failedHook, refusedSecond, refusedHook])
  t.same(await found({ severity: 'warning' }), [refusedSecond, refusedHook])
  t.same(await found({ code: 'delivery_failed', instance: 'hook' }), [failedHook])
  t.same(await found({ code: 'nothing' }), [])
  t.same(await found({ code: 'test' }), [])
  t.same(await found({ code: 'test', include_tests: true }), [test])
  t.same(await found({ outcome: 'delivered' }), [])
  const moment = (await alertsOf(pool)).find(({ code }) => code === 'delivery_failed')?.alert_time
  await pool.query(
    `update notification set alert_time = alert_time - interval '1 day' where severity = 'warning'`,
  )
  const { rows } = await pool.query<{ at: string }>(
    `select to_char(alert_time at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from notification where id = $1`,
    [failedHook],
  )
  t.ok(moment instanceof Date)
  const at = rows[0]?.at
  t.same(await found({ from: at }), [failedSecond, failedHook], 'from is inclusive')
  t.same(await found({ to: at }), [refusedSecond, refusedHook], 'to is exclusive')
  t.same(await found({ from: at, instance: 'second' }), [failedSecond])
})

t.test('6.2: plugin_failed names the instance, its node and the reason, once a failure', async (t) => {
  const { pool } = await createTestDatabase(t)
  const failure = {
    type: 'file-poller',
    name: 'orders-in',
    node: 'edi-1',
    reason: 'The directory does not exist',
    retries: false,
    at: new Date(),
  }
  await raisePluginFailed(pool, failure)
  await raisePluginFailed(pool, failure)
  t.match(await alertsOf(pool), [
    {
      alert_time: failure.at,
      severity: 'critical',
      code: 'plugin_failed',
      subject_kind: 'plugin',
      subject_id: 'file-poller:orders-in',
      subject_name: 'orders-in',
      summary: 'The plugin instance orders-in (file-poller) has failed on the node edi-1',
      details: /^Reason: The directory does not exist\n/,
      dedupe_key: 'plugin_failed/file-poller:orders-in',
      link_path: '/api/v1/plugins/configs/file-poller/orders-in',
    },
  ])
  t.equal((await alertsOf(pool)).length, 1)
  await raisePluginFailed(pool, { ...failure, at: new Date(failure.at.getTime() + 1_000) })
  t.equal((await alertsOf(pool)).length, 2, 'a restart with the same reason')
})
