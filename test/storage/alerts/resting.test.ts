import t from 'tap'
import type { Pool } from 'pg'
import { raiseTest } from '../../../storage/alerts/notification-log.ts'
import { settlePost, wakeRepeats, type PostRequest } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import { claimed, claimOne, deliverOne, notifier, outcomesOf, passDate, raise, rowsOf } from './fixture.ts'

/** What becomes of the others while a post waits for its repeat. */

t.setTimeout(300_000)

const GROUP = { groupSeconds: 3_000 }
const COOLDOWN = { cooldownSeconds: 90_000 }

/** Alerts with these keys. */
async function site(t: Parameters<typeof createTestDatabase>[0], ...keys: readonly string[]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  for (const repeats of keys) await raise(pool, { repeats })
  return pool
}

/** Posts what is next in vain: it is repeated in ten hours, and the notifier rests for an hour. */
async function failOne(pool: Pool, changes: Partial<PostRequest> = {}): Promise<string> {
  const post = await claimed(pool, changes)
  const outcome = { outcome: 'retry', error: 'HTTP 503', delaySeconds: 36_000, restSeconds: 3_600 } as const
  if (!(await settlePost(pool, post, outcome))) throw new Error('The claim was lost')
  return post.alerts[0]?.dedupe_key ?? ''
}

const nextKey = async (pool: Pool, changes: Partial<PostRequest> = {}) =>
  (await claimOne(pool, changes)).post?.alerts[0]?.dedupe_key ?? null

t.test('after a failed post the notifier rests, and then goes on with what is fresh', async (t) => {
  const pool = await site(t, 'a', 'b', 'c')
  t.equal(await failOne(pool), 'delivery_failed/a')
  const resting = await claimOne(pool)
  t.equal(resting.post, null)
  t.ok((resting.lookAgainSeconds ?? 0) > 0 && (resting.lookAgainSeconds ?? 0) <= 3_600)
  await passTime(pool, 3_601)
  t.equal(await failOne(pool), 'delivery_failed/b', 'though the first waits longer')
  t.equal((await claimOne(pool)).post, null, 'it rests after each')
  await passTime(pool, 3_601)
  t.equal(await failOne(pool), 'delivery_failed/c')
  await passTime(pool, 3_601)
  const waiting = await claimOne(pool)
  t.equal(waiting.post, null, 'and the repeats wait for their time')
  t.ok((waiting.lookAgainSeconds ?? 0) > 3_600 && (waiting.lookAgainSeconds ?? 0) <= 36_000)
  await passTime(pool, 36_000)
  t.equal(await nextKey(pool), 'delivery_failed/a')
})

t.test(
  'after a post that failed for good the notifier rests, too, until it is started or posts',
  async (t) => {
    const pool = await site(t, 'a', 'b', 'c', 'd', 'e')
    const failure = { outcome: 'failed', error: 'HTTP 404', restSeconds: 3_600 } as const
    t.equal(await settlePost(pool, await claimed(pool), failure), true)
    const resting = await claimOne(pool)
    t.equal(resting.post, null)
    t.ok((resting.lookAgainSeconds ?? 0) > 0 && (resting.lookAgainSeconds ?? 0) <= 3_600)
    await passDate(pool, 3_601)
    t.equal(await settlePost(pool, await claimed(pool), failure), true, 'by the date')
    t.equal((await claimOne(pool)).post, null, 'it rests after each')
    await passTime(pool, 3_601)
    t.equal(await settlePost(pool, await claimed(pool), failure), true, 'in exchange time')
    await wakeRepeats(pool, 'hook')
    t.equal(await settlePost(pool, await claimed(pool), failure), true, 'after a start')
    await raiseTest(pool, 'hook')
    t.equal(await settlePost(pool, await claimed(pool), failure), true, 'a test goes through')
    t.equal((await claimOne(pool)).post, null)
    await raiseTest(pool, 'hook')
    t.equal(await deliverOne(pool), 1)
    t.equal(await nextKey(pool), 'delivery_failed/e', 'after a post that arrived')
  },
)

t.test(
  'a test that fails begins no rest, and a notifier of the same name does not inherit one',
  async (t) => {
    const pool = await site(t, 'a')
    const failure = { outcome: 'failed', error: 'HTTP 404', restSeconds: 3_600 } as const
    await raiseTest(pool, 'hook')
    await settlePost(pool, await claimed(pool), failure)
    await settlePost(pool, await claimed(pool), failure)
    await pool.query(`delete from plugin_configuration where name = 'hook'`)
    await notifier(pool, 'hook')
    await raise(pool, { repeats: 'b' })
    t.equal(await nextKey(pool), 'delivery_failed/b')
  },
)

t.test('a younger alert of the same key waits for the repeat of the older one', async (t) => {
  for (const changes of [{}, COOLDOWN, { ...GROUP, ...COOLDOWN }]) {
    const pool = await site(t, 'a')
    await passTime(pool, 3_001)
    await failOne(pool, changes)
    for (const repeats of ['a', 'b']) await raise(pool, { repeats })
    await passTime(pool, 3_601)
    const post = await claimed(pool, changes)
    t.match(post, { count: 1, alerts: [{ dedupe_key: 'delivery_failed/b' }] })
    await settlePost(pool, post, { outcome: 'failed', error: 'HTTP 410' })
    t.equal((await claimOne(pool, changes)).post, null)
    t.same(await outcomesOf(pool), ['queued', 'queued', 'failed'])
  }
})

t.test('and is suppressed when that is delivered, or posted when that fails for good', async (t) => {
  for (const outcome of ['delivered', 'failed'] as const) {
    const pool = await site(t, 'a', 'a')
    await failOne(pool, COOLDOWN)
    await passTime(pool, 36_001)
    await settlePost(pool, await claimed(pool, COOLDOWN), { outcome, error: 'HTTP 503' })
    const isNext = await nextKey(pool, COOLDOWN)
    t.equal(isNext, outcome === 'failed' ? 'delivery_failed/a' : null)
    t.same(await outcomesOf(pool), [outcome, outcome === 'failed' ? 'queued' : 'suppressed_cooldown'])
  }
})

t.test('a group takes along what repeats, where there is no cooldown', async (t) => {
  const pool = await site(t, 'a')
  await passTime(pool, 3_001)
  await failOne(pool, GROUP)
  for (const repeats of ['a', 'b']) await raise(pool, { repeats })
  await passTime(pool, 3_601)
  t.equal(await deliverOne(pool, GROUP), 2)
})

t.test('the keys of a group wait for its repeat as that of a single alert does', async (t) => {
  const pool = await site(t, 'a', 'b')
  await passTime(pool, 3_001)
  await failOne(pool, { ...GROUP, ...COOLDOWN })
  for (const repeats of ['b', 'c']) await raise(pool, { repeats })
  await passTime(pool, 3_601)
  t.equal(await nextKey(pool, { ...GROUP, ...COOLDOWN }), 'delivery_failed/c')
  t.same(await outcomesOf(pool), ['queued', 'grouped', 'queued', 'queued'])
})

t.test('behind hundreds that wait for an older one, another is found', async (t) => {
  const pool = await site(t, 'a')
  await failOne(pool)
  await pool.query(
    `select raise_alert('critical', 'delivery_failed', 'message', 'id', 'name', 'It failed', 'Why', 'a', null)
     from generate_series(1, 700)`,
  )
  for (const repeats of ['z', 'b']) await raise(pool, { repeats })
  await passTime(pool, 3_601)
  t.equal(await deliverOne(pool, COOLDOWN), 1)
  const told = async () => (await rowsOf(pool)).filter(({ outcome }) => outcome === 'delivered')
  t.match(await told(), [{ key: 'delivery_failed/z' }], 'the oldest of them')
  for (const _ of [1, 2]) await deliverOne(pool, COOLDOWN)
  t.same(await claimOne(pool, COOLDOWN), { post: null, lookAgainSeconds: null })
  t.match(await told(), [
    { key: 'delivery_failed/a', attempts: 2 },
    { key: 'delivery_failed/z' },
    { key: 'delivery_failed/b' },
  ])
  t.equal((await outcomesOf(pool)).filter((outcome) => outcome === 'suppressed_cooldown').length, 700)
})

t.test('when a post is delivered, all that wait for their repeat are due, the oldest first', async (t) => {
  const pool = await site(t, 'a', 'b', 'c', 'd')
  for (const _ of [1, 2, 3]) {
    await failOne(pool)
    await passTime(pool, 3_601)
  }
  t.equal(await deliverOne(pool), 1)
  for (const key of ['a', 'b', 'c']) {
    const post = await claimed(pool)
    t.match(post, { attempts: 2, alerts: [{ dedupe_key: `delivery_failed/${key}` }] })
    await settlePost(pool, post, { outcome: 'delivered' })
  }
})

t.test('a test that is delivered ends the rest and the waits; one that is not ends neither', async (t) => {
  const pool = await site(t, 'a', 'b')
  await failOne(pool)
  await raiseTest(pool, 'hook')
  await settlePost(pool, await claimed(pool), { outcome: 'failed', error: 'HTTP 503' })
  t.equal((await claimOne(pool)).post, null)
  await raiseTest(pool, 'hook')
  t.equal(await deliverOne(pool), 1)
  t.equal(await nextKey(pool), 'delivery_failed/a')
})

t.test('an instance that is started repeats at once, and rests no longer; the others do', async (t) => {
  const pool = await site(t, 'a', 'b')
  await notifier(pool, 'other')
  await raise(pool)
  await failOne(pool)
  await failOne(pool, { instance: 'other' })
  await wakeRepeats(pool, 'hook')
  t.equal(await nextKey(pool), 'delivery_failed/a')
  t.equal(await nextKey(pool, { instance: 'other' }), null)
})
