import t from 'tap'
import type { Pool } from 'pg'
import { listNotifications } from '../../../storage/alerts/notification-log.ts'
import { settlePost, type ClaimedPost } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import { claimed, claimOne, deliverOne, notifier, outcomesOf, raise, rowsOf } from './fixture.ts'

/** Which alerts of a group its post names. */

t.setTimeout(300_000)

const GROUP = { groupSeconds: 3_000 }
const COOLDOWN = { cooldownSeconds: 30_000 }

async function site(t: Parameters<typeof createTestDatabase>[0]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook', { min_severity: 'info' })
  return pool
}

/** Warnings of sources that refuse messages: the parties are `<prefix><number>`. */
async function refuse(pool: Pool, count: number, prefix = 'w'): Promise<void> {
  for (let at = 1; at <= count; at += 1)
    await raise(pool, { severity: 'warning', code: 'message_refused', repeats: `${prefix}${at}` })
}

const keysOf = ({ alerts }: ClaimedPost) => alerts.map(({ dedupe_key }) => dedupe_key)

t.test(
  'the worst of a group come first, what repeats comes after what does not, and then the oldest',
  async (t) => {
    const pool = await site(t)
    for (const [severity, repeats] of [
      ['info', 'a'],
      ['warning', 'b'],
      ['warning', 'b'],
      ['critical', 'c'],
      ['warning', 'd'],
      ['critical', 'c'],
      ['critical', 'e'],
      ['warning', 'e'],
    ] as const)
      await raise(pool, { severity, repeats })
    await passTime(pool, 3_001)
    const post = await claimed(pool, GROUP)
    t.match(post, { count: 8, severity: 'critical' })
    t.same(
      post.alerts.map(({ severity, dedupe_key }) => `${severity} ${dedupe_key.at(-1)}`),
      [
        'critical c',
        'critical e',
        'critical c',
        'warning b',
        'warning d',
        'warning b',
        'warning e',
        'info a',
      ],
    )
    const [oldest] = await rowsOf(pool)
    t.equal(post.id, oldest?.id, 'the oldest carries it all the same')
  },
)

t.test(
  'behind more warnings than a post lists, what is critical is named, and the post is as severe',
  async (t) => {
    const pool = await site(t)
    await refuse(pool, 25)
    await raise(pool, { code: 'delivery_failed', repeats: 'as2/globex' })
    await raise(pool, { code: 'plugin_failed', repeats: 'as2-sender:as2' })
    await passTime(pool, 3_001)
    const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
    t.match(post, { count: 27, severity: 'critical', alerts: { length: 20 } })
    t.same(keysOf(post).slice(0, 4), [
      'delivery_failed/as2/globex',
      'plugin_failed/as2-sender:as2',
      'message_refused/w1',
      'message_refused/w2',
    ])
  },
)

t.test('a post is as severe as the worst that it stands for', async (t) => {
  const pool = await site(t)
  await raise(pool, { severity: 'warning', repeats: 'a' })
  t.equal((await claimed(pool)).severity, 'warning')
})

t.test('a repeated post lists the same', async (t) => {
  const pool = await site(t)
  await refuse(pool, 22)
  for (const repeats of ['a', 'b']) await raise(pool, { repeats })
  await passTime(pool, 3_001)
  const first = await claimed(pool, GROUP)
  await settlePost(pool, first, {
    outcome: 'retry',
    error: 'HTTP 503',
    delaySeconds: 1_000,
    restSeconds: 1_000,
  })
  await refuse(pool, 5, 'later')
  await passTime(pool, 1_001)
  const again = await claimed(pool, GROUP)
  t.match(again, { id: first.id, attempts: 2, count: 24, severity: 'critical' })
  t.same(
    again.alerts.map(({ id }) => id),
    first.alerts.map(({ id }) => id),
  )
})

t.test('a key that a post has counted and not named is in no cooldown', async (t) => {
  const pool = await site(t)
  await refuse(pool, 25)
  await raise(pool, { repeats: 'globex' })
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  const named = keysOf(post)
  t.same(named, [
    'delivery_failed/globex',
    ...Array.from({ length: 19 }, (_, at) => `message_refused/w${at + 1}`),
  ])
  t.equal(await settlePost(pool, post, { outcome: 'delivered' }), true)
  const { items } = await listNotifications(pool, {}, { limit: 100, offset: 0 })
  t.equal(items.filter(({ delivered_at }) => delivered_at !== null).length, 26, 'all were delivered with it')
  await refuse(pool, 25)
  await passTime(pool, 3_001)
  const next = await claimed(pool, { ...GROUP, ...COOLDOWN })
  t.same(
    keysOf(next),
    Array.from({ length: 6 }, (_, at) => `message_refused/w${at + 20}`),
    'those that the first did not name',
  )
  t.same(
    (await outcomesOf(pool)).slice(26),
    Array.from({ length: 25 }, (_, at) =>
      at < 19 ? 'suppressed_cooldown' : at === 19 ? 'queued' : 'grouped',
    ),
  )
})

t.test('a carrier that its own post does not name is in no cooldown either', async (t) => {
  const pool = await site(t)
  await raise(pool, { severity: 'warning', repeats: 'first' })
  for (let at = 1; at <= 20; at += 1) await raise(pool, { repeats: `critical-${at}` })
  await passTime(pool, 3_001)
  const post = await claimed(pool, { ...GROUP, ...COOLDOWN })
  t.equal(keysOf(post).includes('delivery_failed/first'), false)
  const [carrier] = await rowsOf(pool)
  t.equal(post.id, carrier?.id)
  t.equal(await settlePost(pool, post, { outcome: 'delivered' }), true)
  await raise(pool, { severity: 'warning', repeats: 'first' })
  await raise(pool, { repeats: 'critical-1' })
  t.equal(await deliverOne(pool, COOLDOWN), 1)
  t.equal((await claimOne(pool, COOLDOWN)).post, null)
  t.same((await outcomesOf(pool)).slice(-2), ['delivered', 'suppressed_cooldown'])
})
