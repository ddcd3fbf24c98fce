import t from 'tap'
import type { Pool } from 'pg'
import { settlePost } from '../../../storage/alerts/outbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import { claimed, claimOne, deliverOne, notifier, outcomesOf, passDate, raise } from './fixture.ts'

/** Exchange time and the date: whichever says first that a wait is over ends it. */

t.setTimeout(300_000)

const COOLDOWN = { cooldownSeconds: 9_000 }
const GROUP = { groupSeconds: 3_000 }
const RETRY = { outcome: 'retry', error: 'HTTP 503', delaySeconds: 9_000, restSeconds: 3_000 } as const

/** What lets so many seconds go by; of the date, as while no service runs. */
const CLOCKS = [
  ['exchange time goes on', passTime],
  ['the date goes on', passDate],
  [
    'exchange time goes on, though the date is put back',
    async (pool: Pool, seconds: number) => {
      await passDate(pool, -100_000)
      await passTime(pool, seconds)
    },
  ],
] as const

async function site(t: Parameters<typeof createTestDatabase>[0]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await notifier(pool, 'hook')
  await raise(pool)
  return pool
}

for (const [how, pass] of CLOCKS) {
  t.test(`${how}: a cooldown ends`, async (t) => {
    const pool = await site(t)
    await deliverOne(pool, COOLDOWN)
    await raise(pool)
    t.equal((await claimOne(pool, COOLDOWN)).post, null)
    await pass(pool, 9_001)
    await raise(pool)
    t.equal(await deliverOne(pool, COOLDOWN), 1)
    t.same(await outcomesOf(pool), ['delivered', 'suppressed_cooldown', 'delivered'])
  })

  t.test(`${how}: the window of a group ends`, async (t) => {
    const pool = await site(t)
    await raise(pool)
    const { post, lookAgainSeconds } = await claimOne(pool, GROUP)
    t.equal(post, null)
    t.ok((lookAgainSeconds ?? 0) > 0 && (lookAgainSeconds ?? 0) <= 3_000)
    await pass(pool, 3_001)
    await raise(pool)
    const { count } = await claimed(pool, GROUP)
    t.equal(count, 2, 'what comes later is not in it')
  })

  t.test(`${how}: a rest ends, and then the wait for a repeat`, async (t) => {
    const pool = await site(t)
    await settlePost(pool, await claimed(pool), RETRY)
    await raise(pool, { repeats: 'other' })
    t.equal((await claimOne(pool)).post, null)
    await pass(pool, 3_001)
    const fresh = await claimed(pool)
    t.match(fresh, { attempts: 1, alerts: [{ dedupe_key: 'delivery_failed/other' }] })
    await settlePost(pool, fresh, { outcome: 'failed', error: 'HTTP 410' })
    t.equal((await claimOne(pool)).post, null)
    await pass(pool, 6_001)
    t.match(await claimed(pool), { attempts: 2, alerts: [{ dedupe_key: 'delivery_failed/a/b' }] })
  })
}

t.test(
  'what is to be posted before its wait is over is told in time, by the clock that is first',
  async (t) => {
    const pool = await site(t)
    await settlePost(pool, await claimed(pool), RETRY)
    await passDate(pool, 1_000)
    const { lookAgainSeconds } = await claimOne(pool)
    t.ok((lookAgainSeconds ?? 0) > 0 && (lookAgainSeconds ?? 0) <= 2_000)
  },
)
