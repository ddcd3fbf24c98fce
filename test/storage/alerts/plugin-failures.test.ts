import type { Pool } from 'pg'
import t, { type Test } from 'tap'
import { systemClock, type Clock } from '../../../runtime/clock.ts'
import { createLog } from '../../../runtime/log.ts'
import { PluginFailures } from '../../../storage/alerts/plugin-failures.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { databaseProxy, type DatabaseProxy } from '../../support/database-proxy.ts'
import { until } from '../../support/processes.ts'

t.setTimeout(300_000)

interface Site {
  readonly failures: PluginFailures
  readonly proxy: DatabaseProxy
  readonly alerts: () => Promise<StoredAlert[]>
}

interface StoredAlert {
  readonly code: string
  readonly subject_id: string
  readonly details: string
  readonly alert_time: Date
}

/** Failures are raised through a way to the database that the test can block; it looks by another. */
async function startSite(t: Test, clock: Clock = systemClock): Promise<Site> {
  const { url, pool } = await createTestDatabase(t)
  const log = createLog('silent')
  const proxy = await databaseProxy(t, url)
  const blocked: Pool = openPool({ url: proxy.url, size: 2, applicationName: 'test', log })
  t.teardown(() => blocked.end())
  const failures = new PluginFailures({ pool: blocked, log, clock, node: 'node-7' })
  t.teardown(() => failures.stop())
  return {
    failures,
    proxy,
    alerts: () =>
      query<StoredAlert>(pool, 'select code, subject_id, details, alert_time from alert order by id'),
  }
}

function failed(name: string, reason = `${name} is broken`, retries = false) {
  return { code: 'plugin_failed', type: 'file-writer', name, reason, retries } as const
}

t.test('a failure is an alert with its reason, its node and the time at which it happened', async (t) => {
  const at = new Date('2026-03-02T09:30:00.250Z')
  const { failures, alerts } = await startSite(t, { ...systemClock, now: () => at })
  failures.note(failed('archive', 'The directory is not there\0'))
  await failures.recorded()
  t.match(await alerts(), [{ code: 'plugin_failed', subject_id: 'file-writer:archive', alert_time: at }])
  const [{ details } = { details: '' }] = await alerts()
  t.match(details, 'The directory is not there')
  t.match(details, 'node-7')
})

t.test('what an outage prevented is told as what is tried again by itself', async (t) => {
  const { failures, alerts } = await startSite(t)
  failures.note(failed('archive', 'The database does not answer', true))
  failures.note(failed('other', 'The directory is not there'))
  await failures.recorded()
  t.match(await alerts(), [
    { details: /^The start is tried again by itself/m },
    { details: /^It is not started again by itself/m },
  ])
})

t.test('the same instance that fails again, with the same reason, is another alert', async (t) => {
  let now = Date.parse('2026-03-02T09:30:00Z')
  const { failures, alerts } = await startSite(t, { ...systemClock, now: () => new Date((now += 1)) })
  for (const _ of [1, 2, 3]) failures.note(failed('archive'))
  await failures.recorded()
  t.equal((await alerts()).length, 3)
})

t.test(
  'while the database is away nobody waits for it; each failure is raised once when it answers',
  async (t) => {
    const { failures, proxy, alerts } = await startSite(t)
    await proxy.close()
    const before = new Date()
    failures.note(failed('a'))
    await failures.recorded()
    failures.note(failed('b'))
    failures.note(failed('c'))
    await failures.recorded()
    const after = new Date()
    t.same(await alerts(), [])
    await proxy.open()
    await until(async () => (await alerts()).length >= 3)
    await failures.recorded()
    const raised = await alerts()
    t.same(
      raised.map(({ subject_id }) => subject_id),
      ['file-writer:a', 'file-writer:b', 'file-writer:c'],
    )
    for (const { alert_time } of raised) t.ok(alert_time >= before && alert_time <= after, 'when it happened')
  },
)

t.test('of failures that wait for the database a thousand are kept', async (t) => {
  const { failures, proxy, alerts } = await startSite(t)
  await proxy.close()
  for (let at = 1; at <= 1100; at += 1) failures.note(failed(`instance-${at}`))
  await proxy.open()
  await until(async () => (await alerts()).length >= 1000)
  await failures.recorded()
  const raised = await alerts()
  t.equal(raised.length, 1000)
  t.equal(raised.at(-1)?.subject_id, 'file-writer:instance-1000')
})

t.test('one that the database will never take does not stand in the way of the others', async (t) => {
  const { failures, alerts } = await startSite(t)
  failures.note(failed('never\0'))
  failures.note(failed('archive'))
  await until(async () => (await alerts()).length > 0)
  await failures.recorded()
  t.match(await alerts(), [{ subject_id: 'file-writer:archive' }])
})

t.test('what failed last is raised before the end', async (t) => {
  const { failures, alerts } = await startSite(t)
  failures.note(failed('archive'))
  await failures.stop()
  t.match(await alerts(), [{ subject_id: 'file-writer:archive' }])
})

t.test('the end does not wait for a database that is away', async (t) => {
  const { failures, proxy, alerts } = await startSite(t)
  await proxy.close()
  failures.note(failed('archive'))
  await t.resolves(failures.stop())
  await proxy.open()
  t.same(await alerts(), [])
})
