import type { Pool } from 'pg'
import t from 'tap'
import { findMessage } from '../../../storage/exchange/messages.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim, takeBack } from '../../../storage/sql/claim.ts'
import { reclaim } from '../../../storage/sql/maintain.ts'
import { redeliver } from '../../../storage/sql/redeliver.ts'
import { settle } from '../../../storage/sql/settle.ts'
import { createTestDatabase } from '../../support/database.ts'
import { claimFor, newMessage, passTime, routesTo, settlementOf } from './fixture.ts'

t.setTimeout(300_000)

const owner = (limit: number) => ({ ...claimFor('a', limit), owner: 'node/a/run/1' })

async function accepted(pool: Pool, count: number): Promise<string[]> {
  await routesTo(pool, 'a')
  const messages = Array.from({ length: count }, () => newMessage())
  for (const message of messages) await accept(pool, [message])
  return messages.map(({ id }) => id)
}

t.test(
  'a payload that breaks its instance down each time fails after five times, and takes nobody with it',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    const [poison = '', ...others] = await accepted(pool, 30)
    let breakdowns = 0
    for (let claims = 0; claims < 100; claims += 1) {
      const claimed = await claim(pool, owner(5))
      if (claimed.length === 0) break
      if (claimed.some(({ message_id }) => message_id === poison)) {
        breakdowns += 1
        await takeBack(pool, 'node/a/', 'run')
      } else {
        const settled = claimed.map((each) => settlementOf(each, { state: 'delivered' }))
        await settle(pool, settled)
      }
    }
    t.equal(breakdowns, 5)
    t.match(await findMessage(pool, poison), {
      status: 'Error',
      deliveries: [{ state: 'failed', attempts: 5, last_error: /cut off/ }],
    })
    for (const id of others) t.equal((await findMessage(pool, id))?.status, 'Delivered')
  },
)

t.test('what is cut off with its whole process is tried twenty times, with the same ids', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [id = ''] = await accepted(pool, 1)
  for (let attempt = 1; attempt <= 20; attempt += 1) {
    const [claimed] = await claim(pool, owner(1))
    t.match(claimed, { message_id: id, attempts: attempt, fencing: attempt })
    // By the next start of the process or, on another node, by the end of the lease.
    if (attempt % 2 === 0) await takeBack(pool, 'node/a/', 'another run')
    else {
      await passTime(pool, 61)
      t.equal((await reclaim(pool)).size, attempt === 20 ? 0 : 1)
    }
  }
  const found = await findMessage(pool, id)
  t.match(found, { status: 'Error', deliveries: [{ state: 'failed', attempts: 20 }] })
  const [delivery] = found?.deliveries ?? []
  t.ok((await redeliver(pool, { messageId: id, deliveryId: String(delivery?.id) }, 'somebody'))?.requeued)
  t.equal((await claim(pool, owner(1))).length, 1)
  t.equal(await takeBack(pool, 'node/a/', 'run'), 1, 'a redelivery begins to count anew')
})

t.test('an attempt that comes to an end of its own forgets those that were cut off', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [id = ''] = await accepted(pool, 1)
  for (let attempt = 1; attempt <= 12; attempt += 1) {
    const [claimed] = await claim(pool, owner(1))
    if (claimed === undefined) return t.fail('nothing was claimed')
    if (attempt % 4 !== 0) await takeBack(pool, 'node/a/', 'run')
    else {
      const outcome = { state: 'retrying', error: 'no answer', delaySeconds: 0 } as const
      await settle(pool, [settlementOf(claimed, outcome)])
    }
  }
  t.equal((await findMessage(pool, id))?.status, 'Retrying')
})

t.test('what was cut off twice is worked on one at a time, beside what was not', async (t) => {
  const { pool } = await createTestDatabase(t)
  await accepted(pool, 6)
  for (const _ of [1, 2]) {
    t.equal((await claim(pool, owner(3))).length, 3)
    await takeBack(pool, 'node/a/', 'run')
  }
  const claimed = await claim(pool, owner(10))
  const [counts] = await query<{ suspects: number }>(
    pool,
    `select count(*) filter (where cut_offs >= 2) as suspects from delivery where state = 'delivering'`,
  )
  t.equal(counts?.suspects, 1)
  t.equal(claimed.length, 4)
  t.same(await claim(pool, owner(10)), [])
  await settle(
    pool,
    claimed.map((each) => settlementOf(each, { state: 'delivered' })),
  )
  t.equal((await claim(pool, owner(10))).length, 1)
})
