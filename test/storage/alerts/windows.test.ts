import t from 'tap'
import type { Pool } from 'pg'
import { listNotifications } from '../../../storage/alerts/notification-log.ts'
import { settlePost } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import { claimed, claimOne, deliverOne, notifier, outcomesOf, raise, rowsOf } from './fixture.ts'

/** What shares a post, and what a cooldown does to it. */

t.setTimeout(300_000)

const GROUP = { groupSeconds: 3_000 }
const COOLDOWN = { cooldownSeconds: 30_000 }

async function site(t: Parameters<typeof createTestDatabase>[0]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  return pool
}

const keysOf = ({ alerts }: { readonly alerts: readonly { readonly dedupe_key: string }[] }) =>
  alerts.map(({ dedupe_key }) => dedupe_key.replace('delivery_failed/', ''))

t.test('a group ends group_seconds after its oldest, however late it is posted', async (t) => {
  const pool = await site(t)
  await raise(pool, { repeats: 'a' })
  await passTime(pool, 2_000)
  await raise(pool, { repeats: 'b' })
  await passTime(pool, 2_000)
  for (const repeats of ['c', 'd']) await raise(pool, { repeats })
  // As after a long stop.
  await passTime(pool, 86_400)
  await raise(pool, { repeats: 'e' })
  const first = await claimed(pool, GROUP)
  t.match(first, { count: 2 })
  t.same(keysOf(first), ['a', 'b'])
  await settlePost(pool, first, { outcome: 'delivered' })
  const second = await claimed(pool, GROUP)
  t.same(keysOf(second), ['c', 'd'], 'the window of the next began with its own oldest, and is over')
  await settlePost(pool, second, { outcome: 'delivered' })
  const { post, lookAgainSeconds } = await claimOne(pool, GROUP)
  t.equal(post, null)
  t.ok((lookAgainSeconds ?? 0) > 0, 'that of the last is not')
  t.same(await outcomesOf(pool), ['delivered', 'grouped', 'delivered', 'grouped', 'queued'])
})

t.test('with a cooldown a group has each key once, and what repeats is suppressed', async (t) => {
  const pool = await site(t)
  for (const repeats of ['a', 'b', 'a', 'a', 'c', 'b']) await raise(pool, { repeats })
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  t.match(post, { count: 3 })
  t.same(keysOf(post), ['a', 'b', 'c'])
  await settlePost(pool, post, { outcome: 'delivered' })
  t.same(await claimOne(pool, { ...GROUP, ...COOLDOWN }), { post: null, lookAgainSeconds: null })
  t.same(await outcomesOf(pool), [
    'delivered',
    'grouped',
    'suppressed_cooldown',
    'suppressed_cooldown',
    'grouped',
    'suppressed_cooldown',
  ])
})

t.test('of the alerts of a key the group keeps the worst', async (t) => {
  const pool = await site(t)
  await raise(pool, { severity: 'warning', repeats: 'a' })
  await raise(pool, { severity: 'warning', repeats: 'b' })
  await raise(pool, { severity: 'critical', repeats: 'a' })
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  t.match(post, { count: 2, severity: 'critical' })
  t.same(
    post.alerts.map(({ severity, dedupe_key }) => `${severity} ${dedupe_key.at(-1)}`),
    ['critical a', 'warning b'],
  )
  await settlePost(pool, post, { outcome: 'delivered' })
  t.same(await claimOne(pool, { ...GROUP, ...COOLDOWN }), { post: null, lookAgainSeconds: null })
  t.same(await outcomesOf(pool), ['suppressed_cooldown', 'delivered', 'grouped'])
})

t.test('a group in which one key repeats is one alert', async (t) => {
  const pool = await site(t)
  for (const _ of [1, 2, 3]) await raise(pool)
  await passTime(pool, 3_001)
  t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN }), 1)
  t.same(await claimOne(pool, { ...GROUP, ...COOLDOWN }), { post: null, lookAgainSeconds: null })
  t.same(await outcomesOf(pool), ['delivered', 'suppressed_cooldown', 'suppressed_cooldown'])
})

t.test('what repeats is told itself when the post of the first has failed for good', async (t) => {
  const pool = await site(t)
  for (const repeats of ['a', 'b', 'a']) await raise(pool, { repeats })
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  await settlePost(pool, post, { outcome: 'failed', error: 'HTTP 410' })
  t.same(await outcomesOf(pool), ['failed', 'failed', 'queued'])
  t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN }), 1)
})

t.test('the log has the format that was posted, of all that went along', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook', { format: 'generic' })
  for (const repeats of ['a', 'b']) await raise(pool, { repeats })
  const formats = async () => {
    const { items } = await listNotifications(pool, {}, { limit: 100, offset: 0 })
    return items.map(({ format }) => format)
  }
  await pool.query(`update plugin_configuration set settings = '{"format":"slack"}'`)
  t.same(await formats(), ['generic', 'generic'], 'what was saved when they were raised')
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, format: 'teams' })
  t.same(await formats(), ['teams', 'teams'])
  await settlePost(pool, post, { outcome: 'retry', error: 'HTTP 503', delaySeconds: 0, restSeconds: 0 })
  await settlePost(pool, await claimed(pool, { ...GROUP, format: 'slack' }), { outcome: 'delivered' })
  t.same(await formats(), ['slack', 'slack'], 'a repeat in another format')
  t.match(await rowsOf(pool), [{ outcome: 'delivered' }, { outcome: 'grouped' }])
})

t.test('a cooldown is that of the address which was told', async (t) => {
  const pool = await site(t)
  await raise(pool)
  t.equal(await deliverOne(pool, { ...COOLDOWN, address: 'a' }), 1)
  await raise(pool)
  t.equal(await deliverOne(pool, { ...COOLDOWN, address: 'b' }), 1)
  for (const address of ['a', 'b']) {
    await raise(pool)
    t.equal((await claimOne(pool, { ...COOLDOWN, address })).post, null)
  }
  for (const repeats of ['c', 'd']) await raise(pool, { repeats })
  await passTime(pool, 3_001)
  t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN, address: 'a' }), 2)
  for (const repeats of ['c', 'd']) await raise(pool, { repeats })
  await passTime(pool, 3_001)
  t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN, address: 'b' }), 2, 'also with a group')
})

t.test('a new configuration of the same name and address has told nobody yet', async (t) => {
  const pool = await site(t)
  await raise(pool)
  await deliverOne(pool, COOLDOWN)
  await pool.query(`delete from plugin_configuration`)
  await notifier(pool, 'hook')
  await raise(pool)
  t.equal(await deliverOne(pool, COOLDOWN), 1)
})
