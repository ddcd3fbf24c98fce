import type { Pool } from 'pg'
import t from 'tap'
import { findMessage } from '../../../storage/exchange/messages.ts'
import { journaled } from '../../../storage/exchange/stages.ts'
import {
  expectReceipt,
  noteForgery,
  sentMessage,
  takeReceipt,
} from '../../../storage/receipts/expected-receipts.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim, takeBack, type ClaimedDelivery } from '../../../storage/sql/claim.ts'
import { failOverdue } from '../../../storage/sql/maintain.ts'
import { redeliver } from '../../../storage/sql/redeliver.ts'
import { settle, type Outcome } from '../../../storage/sql/settle.ts'
import { createTestDatabase } from '../../support/database.ts'
import { claimFor, newMessage, passTime, receiptFor, routesTo, settlementOf } from '../exchange/fixture.ts'

t.setTimeout(300_000)

const AWAITING: Outcome = { state: 'awaiting_ack', deadlineSeconds: 600 }

function expect(pool: Pool, { id, message_id, fencing }: ClaimedDelivery) {
  return expectReceipt(pool, {
    messageId: message_id,
    deliveryId: id,
    fencing,
    sentAs: `${message_id}@waybill`,
    heldAgainst: { mics: ['one'] },
    protocols: { as2: { receipt: { state: 'pending' } } },
  })
}

/** A message that is claimed, and about to be sent. */
async function claimed(pool: Pool, target = 'a'): Promise<ClaimedDelivery> {
  const [found] = await claim(pool, claimFor(target))
  if (found === undefined) throw new Error('Nothing was claimed')
  return found
}

async function site(t: Parameters<typeof createTestDatabase>[0]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await accept(pool, [newMessage()])
  return pool
}

t.test('a message is found by the id that it travelled under, from before it is sent', async (t) => {
  const pool = await site(t)
  const delivery = await claimed(pool)
  t.equal(await expect(pool, { ...delivery, fencing: 7 }), 'lost')
  t.equal(await sentMessage(pool, `${delivery.message_id}@waybill`), null)
  t.equal(await expect(pool, delivery), 'awaited')
  t.match(await sentMessage(pool, `${delivery.message_id}@waybill`), {
    id: delivery.message_id,
    from_party: 'acme',
    to_party: 'globex',
    protocols: { as2: { receipt: { state: 'pending' } } },
    expectation: { mics: ['one'] },
  })
  t.equal(await takeReceipt(pool, receiptFor('018f0000-0000-7000-8000-000000000000')), null)
})

const OUTCOMES: readonly Outcome[] = [
  AWAITING,
  { state: 'delivered' },
  { state: 'failed', error: 'refused' },
  { state: 'retrying', error: 'no answer', delaySeconds: 600 },
  { state: 'queued', error: 'stopped' },
]

for (const outcome of OUTCOMES) {
  for (const failure of [null, 'The partner refused the message']) {
    const said = failure === null ? 'positive' : 'negative'
    t.test(`a ${said} receipt before the settlement decides it, and not ${outcome.state}`, async (t) => {
      const pool = await site(t)
      const delivery = await claimed(pool)
      await expect(pool, delivery)
      const stage = journaled('receipt', Buffer.from('as it travelled'))
      const taken = await takeReceipt(pool, { ...receiptFor(delivery.message_id, failure), stage })
      t.same(taken, { effect: 'counted', targets: [] })
      const settlement = {
        ...settlementOf(delivery, outcome),
        protocols: { as2: { receipt: { state: 'pending' } } },
        stage: journaled('receipt', Buffer.from('another')),
        line: { kind: 'mdn_refused', text: 'another' } as const,
      }
      t.same(await settle(pool, [settlement]), new Set([delivery.id]))
      const message = await findMessage(pool, delivery.message_id)
      t.match(message, {
        status: failure === null ? 'Delivered' : 'Error',
        deliveries: [{ state: failure === null ? 'delivered' : 'failed', last_error: failure }],
        protocols: { as2: { receipt: { state: failure === null ? 'received' : 'refused' } } },
        payloads: { receipt: { sha256: stage.sha256 } },
      })
      const lines = message?.history.filter(({ kind }) => kind.startsWith('mdn_'))
      t.match(lines, [{ text: failure ?? 'processed', target: 'a' }])
      t.equal(lines?.length, 1)
    })
  }
}

t.test('an attempt that was cut off after the receipt came is not made again', async (t) => {
  const pool = await site(t)
  await expect(pool, await claimed(pool))
  const { message_id } = await sentOf(pool)
  await takeBack(pool, 'node/a/')
  t.same(await takeReceipt(pool, receiptFor(message_id)), { effect: 'counted', targets: ['a'] })
  const again = await claimed(pool)
  t.equal(await expect(pool, again), 'answered')
  await settle(pool, [settlementOf(again, { state: 'queued', error: 'it has come' })])
  t.equal((await findMessage(pool, message_id))?.status, 'Delivered')
})

async function sentOf(pool: Pool): Promise<{ message_id: string; id: number }> {
  const { rows } = await pool.query<{ message_id: string; id: number }>('select message_id, id from delivery')
  if (rows[0] === undefined) throw new Error('There is no delivery')
  return rows[0]
}

t.test('a receipt of what was sent before counts no more when it is delivered again', async (t) => {
  const pool = await site(t)
  const delivery = await claimed(pool)
  await expect(pool, delivery)
  await settle(pool, [settlementOf(delivery, AWAITING)])
  await takeReceipt(pool, receiptFor(delivery.message_id, 'refused'))
  const { message_id: messageId, id: deliveryId } = { ...delivery }
  await redeliver(pool, { messageId, deliveryId: String(deliveryId) }, 'somebody')
  t.equal((await takeReceipt(pool, receiptFor(messageId, 'refused')))?.effect, 'repeated')
  const again = await claimed(pool)
  t.equal((await takeReceipt(pool, receiptFor(messageId, 'refused')))?.effect, 'repeated')
  t.equal(await expect(pool, again), 'awaited')
  await settle(pool, [settlementOf(again, AWAITING)])
  t.equal((await takeReceipt(pool, receiptFor(messageId)))?.effect, 'counted')
  t.equal((await findMessage(pool, messageId))?.status, 'Delivered')
})

t.test('what a receipt said stays while a message is delivered again, and after it', async (t) => {
  const pool = await site(t)
  const delivery = await claimed(pool)
  await expect(pool, delivery)
  await settle(pool, [settlementOf(delivery, AWAITING)])
  const { message_id: messageId, id } = delivery
  const stage = journaled('receipt', Buffer.from('as it travelled'))
  await takeReceipt(pool, { ...receiptFor(messageId, 'refused'), stage })
  const genuine = await findMessage(pool, messageId)
  t.match(genuine?.protocols, { as2: { receipt: { state: 'refused', disposition: 'processed/error' } } })
  const forged = { as2: { receipt: { state: 'refused', disposition: null }, mic: 'another' } }
  for (const isAnnounced of [true, false]) {
    await redeliver(pool, { messageId, deliveryId: String(id) }, 'somebody')
    const again = await claimed(pool)
    if (isAnnounced) t.equal(await expect(pool, again), 'awaited')
    const failure = settlementOf(again, { state: 'failed', error: 'forged' })
    const bytes = journaled('receipt', Buffer.from('forged'))
    await settle(pool, [{ ...failure, protocols: isAnnounced ? null : forged, stage: bytes }])
    const after = await findMessage(pool, messageId)
    t.same(after?.payloads['receipt'], genuine?.payloads['receipt'])
    t.match(after?.protocols, genuine?.protocols)
    const { rows } = await pool.query<{ bytes: Buffer }>(
      `select bytes from journal where message_id = $1 and stage = 'receipt'`,
      [messageId],
    )
    t.equal(rows[0]?.bytes.toString(), 'as it travelled')
  }
  t.match((await findMessage(pool, messageId))?.protocols, { as2: { mic: 'another' } }, 'the others are new')
  t.equal((await takeReceipt(pool, receiptFor(messageId)))?.effect, 'late', 'none came since it was sent')
  t.match(await stateOf(pool, messageId), { as2: { receipt: { state: 'received' } } })
  t.equal((await takeReceipt(pool, receiptFor(messageId, 'refused')))?.effect, 'repeated')
})

t.test('what was not sent waits for no receipt', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a', 'b')
  await accept(pool, [newMessage()])
  const delivery = await claimed(pool)
  await expect(pool, delivery)
  await settle(pool, [settlementOf(delivery, AWAITING)])
  await claimed(pool, 'b')
  await takeReceipt(pool, receiptFor(delivery.message_id))
  t.match((await findMessage(pool, delivery.message_id))?.deliveries, [
    { target: 'a', state: 'delivered' },
    { target: 'b', state: 'delivering' },
  ])
})

t.test('lines about forgeries are bounded', async (t) => {
  const pool = await site(t)
  const delivery = await claimed(pool)
  t.notOk(await noteForgery(pool, delivery.message_id, 'forged'), 'of what was not sent')
  await expect(pool, delivery)
  const told = await Promise.all(
    Array.from({ length: 20 }, () => noteForgery(pool, delivery.message_id, 'forged')),
  )
  t.equal(told.filter(Boolean).length, 5)
  const lines = (await findMessage(pool, delivery.message_id))?.history ?? []
  t.equal(lines.filter(({ kind }) => kind === 'mdn_refused').length, 5)
})

t.test('the receipt, the settlement and the deadline at the same moment: one of them decides', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  for (let round = 0; round < 40; round += 1) {
    await accept(pool, [newMessage()])
    const delivery = await claimed(pool)
    await expect(pool, delivery)
    const settled = { ...AWAITING, deadlineSeconds: 0 }
    const [, taken] = await Promise.all([
      settle(pool, [settlementOf(delivery, settled)]),
      takeReceipt(pool, receiptFor(delivery.message_id)),
      failOverdue(pool),
    ])
    await passTime(pool, 1)
    await failOverdue(pool)
    const message = await findMessage(pool, delivery.message_id)
    t.equal(message?.status, taken?.effect === 'counted' ? 'Delivered' : 'Error')
    t.match(message?.protocols, { as2: { receipt: { state: 'received' } } })
  }
})

const stateOf = async (pool: Pool, id: string) =>
  (await findMessage(pool, id))?.protocols as { as2: { receipt: { state: string; at?: string } } } | undefined

t.test('what has failed for good waits for no receipt, and a later one is told', async (t) => {
  const pool = await site(t)
  const delivery = await claimed(pool)
  await expect(pool, delivery)
  await settle(pool, [settlementOf(delivery, { state: 'failed', error: 'HTTP status 500' })])
  t.match(await stateOf(pool, delivery.message_id), { as2: { receipt: { state: 'overdue', at: /^\d{4}-/ } } })
  t.match(await takeReceipt(pool, receiptFor(delivery.message_id)), { effect: 'late' })
  t.match(await stateOf(pool, delivery.message_id), { as2: { receipt: { state: 'received' } } })
  const lines = (await findMessage(pool, delivery.message_id))?.history ?? []
  t.match(
    lines.filter(({ kind }) => kind === 'mdn_received'),
    [{ text: 'processed (no delivery waited for it)' }],
    'no deadline was missed',
  )
})

t.test('as long as another delivery may bring it, the receipt is waited for', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a', 'b')
  await accept(pool, [newMessage()])
  const failure: Outcome = { state: 'failed', error: 'HTTP status 500' }
  const [first, second] = [await claimed(pool, 'a'), await claimed(pool, 'b')]
  await expect(pool, first)
  await settle(pool, [settlementOf(first, failure)])
  t.match(await stateOf(pool, first.message_id), { as2: { receipt: { state: 'pending' } } })
  await settle(pool, [settlementOf(second, failure)])
  t.match(await stateOf(pool, first.message_id), { as2: { receipt: { state: 'overdue' } } })
})

t.test('what we owe for a message that came in is owed also when its delivery has failed', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const protocols = { as2: { receipt: { state: 'pending', at: null } } }
  await accept(pool, [newMessage({ direction: 'inbound', protocols })])
  const delivery = await claimed(pool)
  await settle(pool, [settlementOf(delivery, { state: 'failed', error: 'no space' })])
  t.match(await stateOf(pool, delivery.message_id), { as2: { receipt: { state: 'pending' } } })
})
