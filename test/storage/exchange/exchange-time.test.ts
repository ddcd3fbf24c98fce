import type { Pool } from 'pg'
import t from 'tap'
import { createLog } from '../../../runtime/log.ts'
import { clockRound } from '../../../storage/exchange/clock.ts'
import { findMessage } from '../../../storage/exchange/messages.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { takeReceipt } from '../../../storage/receipts/expected-receipts.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim } from '../../../storage/sql/claim.ts'
import { failOverdue, tick } from '../../../storage/sql/maintain.ts'
import { settle, type Outcome } from '../../../storage/sql/settle.ts'
import { createTestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'
import {
  claimFor,
  jumpServerClock,
  newMessage,
  passTime,
  receiptFor,
  routesTo,
  settlementOf,
} from './fixture.ts'

t.setTimeout(300_000)

/** Longer than the test lasts, in seconds. */
const LONG_RIGHT = 600

const LATER: readonly (readonly [string, Outcome])[] = [
  ['a', { state: 'retrying', error: 'no answer', delaySeconds: 600 }],
  ['b', { state: 'awaiting_ack', deadlineSeconds: 1800 }],
]

/** One message for four targets: a waits for its retry, b for a receipt, c is being delivered, nobody takes d's. */
async function underWay(pool: Pool): Promise<string> {
  await routesTo(pool, 'a', 'b', 'c', 'd')
  const message = newMessage({ protocols: { as2: { receipt: { state: 'pending' } }, other: { kept: true } } })
  await accept(pool, [message])
  for (const [target, outcome] of LATER) {
    const [claimed] = await claim(pool, claimFor(target))
    if (claimed === undefined) throw new Error('Nothing was claimed')
    await settle(pool, [settlementOf(claimed, outcome)])
  }
  await claim(pool, claimFor('c'))
  return message.id
}

async function statesOf(pool: Pool, id: string): Promise<string[]> {
  const message = await findMessage(pool, id)
  return (message?.deliveries ?? []).map(({ target, state }) => `${target} ${state}`)
}

const AS_IT_WAS = ['a retrying', 'b awaiting_ack', 'c delivering', 'd queued']

function round(pool: Pool, nodeId = 'node', announced: string[] = []): Promise<number> {
  const announce = (target: string): unknown => announced.push(target)
  return clockRound({ pool, log: createLog('silent'), nodeId, maxAnnouncements: 2, announce })
}

for (const hours of [1, -1, 24, -24]) {
  t.test(`when the server's date is set by ${hours} hours, every wait goes on where it stood`, async (t) => {
    const { pool } = await createTestDatabase(t)
    const id = await underWay(pool)
    await round(pool)
    const announced: string[] = []
    const before = await findMessage(pool, id)
    await jumpServerClock(pool, hours * 3600)
    t.same(await claim(pool, claimFor('a')), [], 'no retry before the clock notices')
    await round(pool, 'node', announced)
    t.same(await statesOf(pool, id), AS_IT_WAS)
    t.same(await claim(pool, claimFor('a')), [], 'nor after')
    const after = await findMessage(pool, id)
    t.same(after?.history, before?.history)
    // In words of the new date, the next attempt is as far away as it was: fifteen seconds are forgiven.
    const [shift] = await query<{ seconds: number }>(
      pool,
      'select extract(epoch from shift)::float as seconds from exchange_clock',
    )
    t.ok(Math.abs(shift?.seconds ?? Infinity) < 60, 'the test moved it, and the clock moved it back')

    await passTime(pool, 700)
    announced.length = 0
    await round(pool, 'node', announced)
    t.same(await statesOf(pool, id), ['a retrying', 'b awaiting_ack', 'c queued', 'd stalled'])
    t.same(announced.toSorted(), ['a', 'c'])
    await passTime(pool, 1800)
    await round(pool)
    t.same((await statesOf(pool, id))[1], 'b failed')
  })
}

t.test('a process whose own date is wrong by a day decides nothing by it', async (t) => {
  const { pool } = await createTestDatabase(t)
  const id = await underWay(pool)
  await round(pool)
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  for (const days of [1, -1]) {
    Date.now = () => now() + days * 86_400_000
    await round(pool)
    t.same(await claim(pool, claimFor('a')), [])
    t.same(await statesOf(pool, id), AS_IT_WAS)
  }
})

t.test('exchange time never goes back, and by fifteen seconds at most from tick to tick', async (t) => {
  const { pool } = await createTestDatabase(t)
  const ticked = async (): Promise<number> => {
    t.ok(await tick(pool, 'node', 5))
    const text = 'select extract(epoch from ticked_at)::float as at from exchange_clock'
    return (await query<{ at: number }>(pool, text))[0]?.at ?? 0
  }
  let before = await ticked()
  for (const seconds of [3600, -7200, 3, 86_400, -86_400, 14]) {
    await jumpServerClock(pool, seconds)
    const after = await ticked()
    t.ok(after >= before, `not back after ${seconds}`)
    t.ok(after - before < 15.001, `not far after ${seconds}`)
    before = after
  }
})

t.test('one node ticks; another one does when it falls silent', async (t) => {
  const { pool } = await createTestDatabase(t)
  t.ok(await tick(pool, 'first', LONG_RIGHT))
  t.notOk(await tick(pool, 'second', LONG_RIGHT))
  t.ok(await tick(pool, 'first', LONG_RIGHT), 'whoever ticks goes on')
  // A right has ended, but its holder has ticked again in a transaction that is still open.
  await pool.query('update exchange_clock set held_until = clock_timestamp()')
  const hanging = await pool.connect()
  await hanging.query('begin')
  t.ok(await tick(hanging, 'first', 1))
  t.notOk(await tick(pool, 'second', LONG_RIGHT), 'not while it may still come')
  await hanging.query('commit')
  hanging.release()
  await until(() => tick(pool, 'second', LONG_RIGHT))
  t.notOk(await tick(pool, 'first', LONG_RIGHT), 'the first one comes too late')
})

t.test('a right to tick that the server gave before its date was set back is none', async (t) => {
  const { pool } = await createTestDatabase(t)
  await tick(pool, 'first', 5)
  await pool.query(`update exchange_clock set held_until = now() + interval '1 hour'`)
  t.ok(await tick(pool, 'second', 5))
})

t.test('a receipt that does not come by its deadline fails the delivery, and is overdue', async (t) => {
  const { pool } = await createTestDatabase(t)
  const id = await underWay(pool)
  await passTime(pool, 1799)
  t.equal(await failOverdue(pool), 0)
  await passTime(pool, 2)
  t.equal(await failOverdue(pool), 1)
  const found = await findMessage(pool, id)
  t.match(found?.deliveries[1], { state: 'failed', last_error: 'No receipt came by its deadline' })
  t.same(found?.protocols, { as2: { receipt: { state: 'overdue' } }, other: { kept: true } })
  t.match(
    found?.history.find(({ new_state }) => new_state === 'failed'),
    {
      old_state: 'awaiting_ack',
      text: 'No receipt came by its deadline',
    },
  )
  // Of the other deliveries of this message none was sent.
  t.match(await takeReceipt(pool, receiptFor(id)), { effect: 'late' })
  const after = await findMessage(pool, id)
  t.same(after?.deliveries, found?.deliveries, 'one that comes later changes no delivery')
  const receipt = { state: 'received', disposition: 'processed' }
  t.same(after?.protocols, { as2: { receipt }, other: { kept: true } })
  t.match(after?.history.at(-1), {
    kind: 'mdn_received',
    text: 'processed (it came too late)',
  })
})

t.test('a receipt ends the delivery that waits for it, once', async (t) => {
  const { pool } = await createTestDatabase(t)
  const id = await underWay(pool)
  const both = await Promise.all([
    takeReceipt(pool, receiptFor(id)),
    takeReceipt(pool, receiptFor(id, 'refused')),
  ])
  t.same(new Set(both.map((taken) => taken?.effect)), new Set(['counted', 'repeated']))
  const found = await findMessage(pool, id)
  const positive = both[0]?.effect === 'counted'
  t.equal(found?.deliveries[1]?.state, positive ? 'delivered' : 'failed')
  t.match(found?.protocols['as2'], { receipt: { state: positive ? 'received' : 'refused' } })
  const kinds = found?.history.filter(({ kind }) => kind.startsWith('mdn_')).map(({ kind }) => kind)
  t.same(kinds, [positive ? 'mdn_received' : 'mdn_refused'])
})
