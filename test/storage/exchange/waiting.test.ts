import type { Pool } from 'pg'
import t from 'tap'
import { findMessage } from '../../../storage/exchange/messages.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim } from '../../../storage/sql/claim.ts'
import { announceWaiting, stallWaiting } from '../../../storage/sql/maintain.ts'
import { redeliver } from '../../../storage/sql/redeliver.ts'
import { redispatch } from '../../../storage/sql/redispatch.ts'
import { settle } from '../../../storage/sql/settle.ts'
import { createTestDatabase } from '../../support/database.ts'
import { claimFor, jumpServerClock, newMessage, passTime, routesTo, settlementOf } from './fixture.ts'

t.setTimeout(300_000)

/** A round of the clock every ten seconds: when it announced and when it stalled, in seconds from now. */
async function watch(pool: Pool, announcements: number, seconds: number) {
  const announced: number[] = []
  const stalled: number[] = []
  for (let passed = 0; passed <= seconds; passed += 10) {
    if ((await stallWaiting(pool, announcements)) > 0) stalled.push(passed)
    if ((await announceWaiting(pool, announcements)).length > 0) announced.push(passed)
    await passTime(pool, 10)
  }
  return { announced, stalled }
}

t.test('what no target claims is announced with growing waits, and then stalled', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage()
  await accept(pool, [message])
  t.same(await watch(pool, 5, 1500), { announced: [10, 50, 210, 810], stalled: [1410] })
  t.match(await findMessage(pool, message.id), {
    status: 'Stalled',
    stage: 'settled',
    deliveries: [{ state: 'stalled', last_error: 'No target took it' }],
  })
})

for (const [announcements, stalled] of [
  [1, 10],
  [2, 50],
  [7, 2610],
] as const) {
  t.test(`announced ${announcements} times, it is stalled after ${stalled} seconds`, async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, 'a')
    await accept(pool, [newMessage()])
    const seen = await watch(pool, announcements, stalled + 50)
    t.same(seen.stalled, [stalled])
    t.equal(seen.announced.length, announcements - 1, 'the acceptance itself was the first')
  })
}

t.test('redispatch and redelivery let the waits begin anew', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage()
  await accept(pool, [message])
  await watch(pool, 2, 30)
  await redispatch(pool, message.id, 'somebody')
  t.same((await watch(pool, 2, 60)).stalled, [50])
  const [delivery] = (await findMessage(pool, message.id))?.deliveries ?? []
  const ids = { messageId: message.id, deliveryId: String(delivery?.id) }
  t.match(await redeliver(pool, ids, 'somebody'), { state: 'stalled', requeued: true })
  t.same((await watch(pool, 2, 60)).stalled, [50])
})

t.test('what waits behind others is not stalled while its target works, nor soon after', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await accept(pool, [newMessage(), newMessage()])
  const [claimed] = await claim(pool, claimFor('a', 1))
  if (claimed === undefined) return t.fail('nothing was claimed')
  t.same((await watch(pool, 2, 200)).stalled, [])
  await settle(pool, [settlementOf(claimed, { state: 'delivered' })])
  t.same((await watch(pool, 2, 60)).stalled, [40], 'it was seen at work ten seconds ago')
})

t.test('a target that does not run stalls its own deliveries, and leaves those of others', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a', 'b')
  await accept(pool, [newMessage(), newMessage()])
  await claim(pool, claimFor('b', 1))
  t.same((await watch(pool, 1, 30)).stalled, [10])
  const rows = await query<{ target: string; state: string }>(
    pool,
    'select target, state from delivery order by target, state',
  )
  t.same(
    rows.map(({ target, state }) => `${target} ${state}`),
    ['a stalled', 'a stalled', 'b delivering', 'b queued'],
  )
})

t.test('the time in which no process runs is no wait', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await accept(pool, [newMessage()])
  await pool.query('update exchange_clock set ticked_at = now()')
  // To the records, a night without a process is the same as a clock that was set forward.
  await jumpServerClock(pool, 8 * 3600)
  t.equal(await stallWaiting(pool, 2), 0)
  t.same(
    (await watch(pool, 2, 100)).stalled,
    [40],
    'ten seconds of the night count, and no more than fifteen',
  )
})
