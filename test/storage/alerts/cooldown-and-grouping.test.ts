import t from 'tap'
import type { Pool } from 'pg'
import { listNotifications, raiseTest } from '../../../storage/alerts/notification-log.ts'
import { settlePost } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import { claimed, claimOne, deliverOne, notifier, outcomesOf, raise, rowsOf } from './fixture.ts'

t.setTimeout(300_000)

async function site(t: Parameters<typeof createTestDatabase>[0]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  return pool
}

async function raiseMany(pool: Pool, count: number, keys: number): Promise<void> {
  await pool.query(
    `select raise_alert('critical', 'delivery_failed', 'message', n::text, 'file ' || n, 'It failed', 'Why', 'a/' || n % $2, null)
     from generate_series(0, $1 - 1) n`,
    [count, keys],
  )
}

async function counted(pool: Pool): Promise<Record<string, number>> {
  const { rows } = await pool.query<{ outcome: string; n: number }>(
    'select outcome, count(*)::int as n from notification group by outcome',
  )
  return Object.fromEntries(rows.map(({ outcome, n }) => [outcome, n]))
}

const COOLDOWN = { cooldownSeconds: 9_000 }

t.test(
  'within the cooldown after a delivery, alerts of its key are suppressed; others are not',
  async (t) => {
    const pool = await site(t)
    await raise(pool, { repeats: 'a/b' })
    t.equal(await deliverOne(pool, COOLDOWN), 1)
    await raise(pool, { repeats: 'a/b' })
    await raise(pool, { repeats: 'a/c' })
    t.equal(await deliverOne(pool, COOLDOWN), 1)
    t.match(await rowsOf(pool), [
      { outcome: 'delivered' },
      { key: 'delivery_failed/a/b', outcome: 'suppressed_cooldown', attempts: 0, last_error: null },
      { key: 'delivery_failed/a/c', outcome: 'delivered' },
    ])
    await passTime(pool, 9_001)
    await raise(pool, { repeats: 'a/b' })
    t.equal(await deliverOne(pool, COOLDOWN), 1, 'after the cooldown')
  },
)

t.test('the same key with another code is another matter', async (t) => {
  const pool = await site(t)
  await raise(pool)
  await deliverOne(pool, COOLDOWN)
  await raise(pool, { code: 'receipt_overdue' })
  t.equal(await deliverOne(pool, COOLDOWN), 1)
})

t.test('a cooldown of 0 suppresses nothing', async (t) => {
  const pool = await site(t)
  for (const _ of [1, 2, 3]) await raise(pool)
  for (const _ of [1, 2, 3]) t.equal(await deliverOne(pool), 1)
})

t.test('a younger alert waits for what comes of an older one of its key', async (t) => {
  const pool = await site(t)
  await raise(pool)
  await raise(pool)
  await raise(pool)
  const first = await claimed(pool, COOLDOWN)
  t.equal((await claimOne(pool, { ...COOLDOWN, owner: 'other/hook/run/1' })).post, null)
  await settlePost(pool, first, { outcome: 'failed', error: 'HTTP 410' })
  t.same(await outcomesOf(pool), ['failed', 'queued', 'queued'])
  t.equal(await deliverOne(pool, COOLDOWN), 1, 'nobody was told yet')
  t.equal((await claimOne(pool, COOLDOWN)).post, null)
  t.same(await outcomesOf(pool), ['failed', 'delivered', 'suppressed_cooldown'])
})

t.test('the cooldown is that of each notifier', async (t) => {
  const pool = await site(t)
  await notifier(pool, 'other')
  await raise(pool)
  await deliverOne(pool, COOLDOWN)
  t.equal(await deliverOne(pool, { instance: 'other', ...COOLDOWN }), 1)
})

t.test('of ten thousand alerts with a few keys, each key is posted once', async (t) => {
  const pool = await site(t)
  await raiseMany(pool, 10_000, 4)
  for (const _ of [1, 2, 3, 4]) t.equal(await deliverOne(pool, COOLDOWN), 1)
  t.same(await claimOne(pool, COOLDOWN), { post: null, lookAgainSeconds: null })
  t.same(await counted(pool), { delivered: 4, suppressed_cooldown: 9_996 })
})

const GROUP = { groupSeconds: 3_000 }

t.test('alerts of a window share the post of the oldest', async (t) => {
  const pool = await site(t)
  for (const repeats of ['a/1', 'a/2', 'a/1']) await raise(pool, { repeats })
  const early = await claimOne(pool, GROUP)
  t.equal(early.post, null)
  t.ok((early.lookAgainSeconds ?? 0) > 0 && (early.lookAgainSeconds ?? 0) <= 3_000)
  t.same(await outcomesOf(pool), ['queued', 'queued', 'queued'])
  await passTime(pool, 3_001)
  const post = await claimed(pool, GROUP)
  const [carrier] = await rowsOf(pool)
  t.match(post, { id: carrier?.id, count: 3, attempts: 1 })
  t.same(
    post.alerts.map(({ dedupe_key }) => dedupe_key),
    ['delivery_failed/a/1', 'delivery_failed/a/2', 'delivery_failed/a/1'],
  )
  t.same(await outcomesOf(pool), ['queued', 'grouped', 'grouped'])
  await settlePost(pool, post, { outcome: 'delivered' })
  t.same(await outcomesOf(pool), ['delivered', 'grouped', 'grouped'])
  const { items } = await listNotifications(pool, {}, { limit: 100, offset: 0 })
  t.equal(items.filter(({ delivered_at }) => delivered_at !== null).length, 3)
})

t.test(
  'a group that is repeated stays as it is, and what comes later waits for its own window',
  async (t) => {
    const pool = await site(t)
    for (const repeats of ['a/1', 'a/2']) await raise(pool, { repeats })
    await passTime(pool, 3_001)
    await settlePost(pool, await claimed(pool, GROUP), {
      outcome: 'retry',
      error: '503',
      delaySeconds: 1_000,
      restSeconds: 1_000,
    })
    await raise(pool, { repeats: 'a/3' })
    await passTime(pool, 1_001)
    const again = await claimed(pool, GROUP)
    t.match(again, { count: 2, attempts: 2, alerts: { length: 2 } })
    await settlePost(pool, again, { outcome: 'delivered' })
    t.equal((await claimOne(pool, GROUP)).post, null, 'the window of the third')
    await passTime(pool, 3_001)
    t.match(await claimed(pool, GROUP), { count: 1, attempts: 1 })
  },
)

t.test('a group whose post fails for good has failed with it', async (t) => {
  const pool = await site(t)
  for (const repeats of ['a/1', 'a/2']) await raise(pool, { repeats })
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  await settlePost(pool, post, { outcome: 'failed', error: 'HTTP 410' })
  t.match(await rowsOf(pool), [
    { outcome: 'failed', attempts: 1, last_error: 'HTTP 410' },
    { outcome: 'failed', attempts: 0, last_error: 'HTTP 410' },
  ])
  await raise(pool, { repeats: 'a/2' })
  await passTime(pool, 3_001)
  t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN }), 1, 'what nobody was told of is in no cooldown')
})

t.test(
  'what went along with a post is in its cooldown, and what is in a cooldown joins no post',
  async (t) => {
    const pool = await site(t)
    for (const repeats of ['a/1', 'a/2']) await raise(pool, { repeats })
    await passTime(pool, 3_001)
    t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN }), 2)
    for (const repeats of ['a/3', 'a/2', 'a/4']) await raise(pool, { repeats })
    await passTime(pool, 3_001)
    t.equal(await deliverOne(pool, { ...GROUP, ...COOLDOWN }), 2)
    t.same((await outcomesOf(pool)).slice(2), ['delivered', 'suppressed_cooldown', 'grouped'])
  },
)

t.test('a post of a group carries the first twenty and counts all; a test joins none', async (t) => {
  const pool = await site(t)
  await raiseMany(pool, 10_000, 10_000)
  const id = await raiseTest(pool, 'hook')
  await passTime(pool, 3_001)
  t.match(await claimed(pool, GROUP), { id, count: 1, test: true })
  await pool.query(`update notification set outcome = 'delivered', lease_owner = null, lease_until = null,
    posted_at = now(), delivered_at = now() where test`)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  t.equal(post.count, 10_000)
  t.same(
    post.alerts.map(({ subject_id }) => subject_id),
    Array.from({ length: 20 }, (_, at) => String(at)),
  )
  await settlePost(pool, post, { outcome: 'delivered' })
  t.same(await counted(pool), { delivered: 2, grouped: 9_999 })
})
