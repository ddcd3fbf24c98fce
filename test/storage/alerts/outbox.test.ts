import t from 'tap'
import { raiseTest } from '../../../storage/alerts/notification-log.ts'
import { renewPost, settlePost, takeBackPosts } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import {
  claimed,
  claimOne,
  deliverOne,
  generationOf,
  notifier,
  outcomesOf,
  raise,
  rowsOf,
} from './fixture.ts'

t.setTimeout(300_000)

async function site(t: Parameters<typeof createTestDatabase>[0], alerts: number) {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  for (let at = 1; at <= alerts; at += 1) await raise(pool, { repeats: `a/${at}` })
  const ids = (await rowsOf(pool)).map(({ id }) => id)
  return { pool, ids }
}

t.test('nothing waits where nothing was raised', async (t) => {
  const { pool } = await site(t, 0)
  t.same(await claimOne(pool), { post: null, lookAgainSeconds: null })
})

t.test('alerts are posted from the oldest, each by itself', async (t) => {
  const { pool, ids } = await site(t, 3)
  for (const id of ids) {
    const post = await claimed(pool)
    t.match(post, { id, attempts: 1, test: false, count: 1, alerts: { length: 1 } })
    t.match(post.alerts[0], {
      code: 'delivery_failed',
      severity: 'critical',
      subject_kind: 'message',
      summary: 'It failed',
      link_path: '/api/v1/messages/id',
      test: false,
    })
    t.equal(await settlePost(pool, post, { outcome: 'delivered' }), true)
  }
  t.same(await claimOne(pool), { post: null, lookAgainSeconds: null })
  t.match(await rowsOf(pool), [
    { outcome: 'delivered', attempts: 1, last_error: null },
    { outcome: 'delivered', attempts: 1, last_error: null },
    { outcome: 'delivered', attempts: 1, last_error: null },
  ])
})

t.test('alerts that were raised while nobody ran wait, and each notifier has its own', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  await notifier(pool, 'other')
  await raise(pool)
  await passTime(pool, 86_400)
  t.equal(await deliverOne(pool), 1)
  t.same(await outcomesOf(pool, 'other'), ['queued'])
  t.equal(await deliverOne(pool, { instance: 'other' }), 1)
})

t.test('one post at a time, also of several that claim at the same moment', async (t) => {
  const { pool, ids } = await site(t, 5)
  const claims = await Promise.all(
    Array.from({ length: 8 }, (_, at) => claimOne(pool, { owner: `node-${at}/hook/run/1` })),
  )
  const posts = claims.flatMap(({ post }) => (post === null ? [] : [post]))
  t.match(posts, [{ id: ids[0] }])
  t.equal(posts.length, 1)
  t.ok(claims.every(({ post, lookAgainSeconds }) => post !== null || (lookAgainSeconds ?? 0) > 0))
})

t.test('a post that failed is repeated when it is due, before the others', async (t) => {
  const { pool, ids } = await site(t, 2)
  const first = await claimed(pool)
  t.equal(
    await settlePost(pool, first, {
      outcome: 'retry',
      error: 'HTTP 503',
      delaySeconds: 3_600,
      restSeconds: 3_600,
    }),
    true,
  )
  t.match(await rowsOf(pool), [{ outcome: 'queued', attempts: 1, last_error: 'HTTP 503' }, { attempts: 0 }])
  const early = await claimOne(pool)
  t.equal(early.post, null)
  t.ok((early.lookAgainSeconds ?? 0) > 0 && (early.lookAgainSeconds ?? 0) <= 3_600)
  await passTime(pool, 3_601)
  const again = await claimed(pool)
  t.match(again, { id: ids[0], attempts: 2 })
  t.ok(again.fencing > first.fencing)
  t.equal(await settlePost(pool, again, { outcome: 'delivered' }), true)
  t.match(await rowsOf(pool), [{ outcome: 'delivered', attempts: 2, last_error: null }, {}])
  t.match(await claimed(pool), { id: ids[1] })
})

t.test('a post that failed for good has its reason, and the next one goes on', async (t) => {
  const { pool, ids } = await site(t, 2)
  await settlePost(pool, await claimed(pool), { outcome: 'failed', error: 'HTTP 410 '.repeat(1_000) })
  const [failed] = await rowsOf(pool)
  t.match(failed, { outcome: 'failed', attempts: 1, last_error: /^HTTP 410 / })
  t.equal(failed?.last_error?.length, 2_000)
  t.match(await claimed(pool), { id: ids[1] })
})

t.test('a claim that was lost changes nothing', async (t) => {
  const { pool, ids } = await site(t, 1)
  const lost = await claimed(pool)
  const other = { owner: 'other/hook/run/1' }
  t.equal((await claimOne(pool, other)).post, null, 'while its lease lasts')
  await passTime(pool, 3_601)
  const post = await claimed(pool, other)
  t.match(post, { id: ids[0], attempts: 2 })
  t.equal(await renewPost(pool, lost, 3_600), false)
  t.equal(await settlePost(pool, lost, { outcome: 'failed', error: 'late' }), false)
  t.match(await rowsOf(pool), [{ outcome: 'queued', last_error: 'The post was cut off' }])
  t.equal(await settlePost(pool, post, { outcome: 'delivered' }), true)
  t.equal(await settlePost(pool, post, { outcome: 'failed', error: 'twice' }), false)
  t.same(await outcomesOf(pool), ['delivered'])
})

t.test('a claim whose answer was lost is answered again, as the one attempt that it is', async (t) => {
  const { pool } = await site(t, 3)
  const group = { groupSeconds: 60 }
  await passTime(pool, 61)
  const lost = await claimed(pool, group)
  t.match(lost, { attempts: 1, count: 3, alerts: { length: 3 } })
  t.same(await claimed(pool, group), lost)
  await passTime(pool, 3_601)
  t.same(await claimed(pool, group), lost, 'also when its lease has ended')
  t.equal((await claimOne(pool, { ...group, owner: 'other/hook/run/1' })).post, null, 'and holds it again')
  t.equal(await settlePost(pool, lost, { outcome: 'delivered' }), true)
  t.match(await rowsOf(pool), [{ outcome: 'delivered', attempts: 1, last_error: null }, {}, {}])
  const id = await raiseTest(pool, 'hook')
  const test = await claimed(pool)
  t.match(test, { id, test: true, attempts: 1 })
  t.same(await claimed(pool), test, 'nobody was sent that test yet')
})

t.test('a claim holds as long as it is renewed', async (t) => {
  const { pool } = await site(t, 1)
  const request = { leaseSeconds: 20 }
  const post = await claimed(pool, request)
  for (const _ of [1, 2, 3]) {
    await passTime(pool, 15)
    t.equal((await claimOne(pool, { ...request, owner: 'other/hook/run/1' })).post, null)
    t.equal(await renewPost(pool, post, 20), true)
  }
  t.equal(await settlePost(pool, post, { outcome: 'delivered' }), true)
  t.equal(await renewPost(pool, post, 20), false)
  t.match(await rowsOf(pool), [{ outcome: 'delivered', attempts: 1 }])
})

t.test('a post has one id in all its repeats, which no other database gives', async (t) => {
  const ids: string[] = []
  for (const _ of [1, 2]) {
    const { pool } = await site(t, 1)
    const first = await claimed(pool)
    await settlePost(pool, first, { outcome: 'retry', error: '503', delaySeconds: 0, restSeconds: 0 })
    const again = await claimed(pool)
    t.equal(again.attempts, 2)
    t.equal(again.webhookId, first.webhookId)
    t.match(first.webhookId, new RegExp(`^${first.id}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`))
    ids.push(first.webhookId)
  }
  t.equal(new Set(ids).size, 2)
})

t.test('an instance of a configuration that is not the saved one any more claims nothing', async (t) => {
  const { pool } = await site(t, 1)
  const generation = await generationOf(pool, 'hook')
  await pool.query(`update plugin_configuration set enabled = false where name = 'hook'`)
  t.equal((await claimOne(pool, { generation })).post, null, 'disabled')
  await pool.query(`update plugin_configuration set enabled = true where name = 'hook'`)
  t.equal((await claimOne(pool, { generation })).post, null, 'enabled again')
  await pool.query(`update plugin_configuration set settings = '{"format": "slack"}' where name = 'hook'`)
  t.match(await claimed(pool), { attempts: 1 }, 'what was started since does')
  await pool.query(`delete from plugin_configuration where name = 'hook'`)
  const deleted = await claimOne(pool, { generation })
  t.same(deleted, { post: null, lookAgainSeconds: null }, 'deleted')
  await notifier(pool, 'hook')
  await raise(pool)
  t.equal((await claimOne(pool, { generation })).post, null, 'saved anew')
  t.match(await claimed(pool), { attempts: 1 })
})

t.test('who follows a predecessor takes its post back and repeats it at once', async (t) => {
  const { pool, ids } = await site(t, 2)
  await claimed(pool)
  t.equal(await takeBackPosts(pool, 'other/hook/'), 0)
  t.equal(await takeBackPosts(pool, 'node/hook/'), 1)
  t.match(await claimed(pool), { id: ids[0], attempts: 2, count: 1 })
})

t.test('a test is posted once, at once, whatever the notifier filters and waits for', async (t) => {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook', { min_severity: 'critical', codes: ['plugin_failed'] }, false)
  t.equal(await raiseTest(pool, 'nobody'), null)
  const id = await raiseTest(pool, 'hook')
  const post = await claimed(pool, { cooldownSeconds: 900, groupSeconds: 3_600 })
  t.match(post, { id, test: true, attempts: 1, count: 1 })
  t.match(post.alerts, [
    { code: 'test', severity: 'info', subject_id: 'notification-webhook:hook', test: true },
  ])
  await settlePost(pool, post, { outcome: 'retry', error: 'HTTP 503', delaySeconds: 0, restSeconds: 0 })
  t.match(await rowsOf(pool), [{ outcome: 'failed', attempts: 1, last_error: 'HTTP 503' }])
  t.same(await claimOne(pool), { post: null, lookAgainSeconds: null })
  // Cut off, it may have arrived: it is not sent twice.
  await raiseTest(pool, 'hook')
  await claimed(pool)
  t.equal(await takeBackPosts(pool, 'node/'), 1)
  t.match(await rowsOf(pool), [{}, { outcome: 'failed', last_error: 'The post was cut off' }])
})

t.test('a test goes before what waits, and through a pause', async (t) => {
  const { pool, ids } = await site(t, 2)
  await settlePost(pool, await claimed(pool), {
    outcome: 'retry',
    error: 'no answer',
    delaySeconds: 3_600,
    restSeconds: 3_600,
  })
  const id = await raiseTest(pool, 'hook')
  const post = await claimed(pool)
  t.equal(post.id, id)
  await settlePost(pool, post, { outcome: 'failed', error: 'no answer' })
  t.equal((await claimOne(pool)).post, null, 'the pause goes on')
  await passTime(pool, 3_601)
  t.match(await claimed(pool), { id: ids[0], attempts: 2 })
})

t.test('a notifier that is deleted ends what waits for it', async (t) => {
  const { pool } = await site(t, 3)
  await deliverOne(pool)
  const post = await claimed(pool, { groupSeconds: 0 })
  await pool.query(`delete from plugin_configuration where name = 'hook'`)
  t.same(await outcomesOf(pool), ['delivered', 'failed', 'failed'])
  t.match((await rowsOf(pool))[2], { last_error: 'The notifier was deleted' })
  t.equal(await settlePost(pool, post, { outcome: 'delivered' }), false)
  await notifier(pool, 'hook')
  t.equal((await claimOne(pool)).post, null)
})

t.test('several nodes that work on the same rows post each once at a time, and all of them', async (t) => {
  const { pool } = await site(t, 40)
  const posted = new Map<number, number>()
  let underWay = 0
  let most = 0
  const isDone = async () => (await outcomesOf(pool)).every((outcome) => outcome === 'delivered')
  const work = async (node: string): Promise<void> => {
    const owner = `${node}/hook/run/1`
    while (!(await isDone())) {
      const { post } = await claimOne(pool, { owner })
      if (post === null) continue
      underWay += 1
      most = Math.max(most, underWay)
      posted.set(post.id, (posted.get(post.id) ?? 0) + 1)
      const isTaken = post.attempts > 1 || post.id % 3 !== 0
      // A post takes its time.
      await outcomesOf(pool)
      underWay -= 1
      const outcome = isTaken
        ? ({ outcome: 'delivered' } as const)
        : ({ outcome: 'retry', error: '503', delaySeconds: 0, restSeconds: 0 } as const)
      if (!(await settlePost(pool, post, outcome))) throw new Error('A claim was lost')
    }
  }
  await Promise.all(['node-1', 'node-2', 'node-3'].map(work))
  t.equal(most, 1)
  for (const { id, attempts } of await rowsOf(pool)) {
    t.equal(attempts, id % 3 === 0 ? 2 : 1)
    t.equal(posted.get(id), attempts)
  }
})
