import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import t from 'tap'
import { findMessage, type MessageView } from '../../../storage/exchange/messages.ts'
import { query, transaction } from '../../../storage/postgres/pool.ts'
import { takeReceipt } from '../../../storage/receipts/expected-receipts.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim, takeBack, type ClaimedDelivery } from '../../../storage/sql/claim.ts'
import { stallWaiting } from '../../../storage/sql/maintain.ts'
import { redeliver } from '../../../storage/sql/redeliver.ts'
import { redispatch } from '../../../storage/sql/redispatch.ts'
import { settle, type Outcome } from '../../../storage/sql/settle.ts'
import { createTestDatabase } from '../../support/database.ts'
import { claimFor, newMessage, passTime, receiptFor, routesTo, settlementOf } from './fixture.ts'

t.setTimeout(300_000)

const WORKERS = 4
const ROUNDS = 40
const MESSAGES = 6
const TARGETS = ['a', 'b'] as const

/** What must hold of every message at any moment; see the rules of decisions 5. */
const CONTRADICTIONS = `
select m.id, m.status, m.stage, array_agg(d.state || ' ' || d.attempts) as deliveries
from message m left join delivery d on d.message_id = m.id
where m.status <> 'Refused'
group by m.id
having m.status <> status_of(array_remove(array_agg(d.state), null))
  or (m.stage = 'settled') <> (m.settled_at is not null)
  or bool_or(d.state = 'queued' and d.waiting_since is null)
  or bool_or(d.attempts > d.fencing)`

/** Every change of a delivery's state stands in the history, one after the other, and so does every status. */
function brokenChain(message: MessageView): string | null {
  let status: string | undefined
  const states = new Map<number, string>()
  for (const { kind, old_status, new_status, delivery_id = 0, old_state, new_state } of message.history) {
    if (kind === 'status_changed') {
      if (old_status !== status) return `${message.id}: ${status} > ${old_status} > ${new_status}`
      status = new_status
    }
    if (kind === 'delivery_changed') {
      if (old_state !== states.get(delivery_id))
        return `${message.id}/${delivery_id}: ${states.get(delivery_id)} > ${old_state} > ${new_state}`
      states.set(delivery_id, new_state ?? '')
    }
  }
  if (status !== message.status) return `${message.id}: ${status} is not ${message.status}`
  const wrong = message.deliveries.find(({ id, state }) => states.get(id) !== state)
  return wrong === undefined ? null : `${message.id}/${wrong.id}: not ${wrong.state}`
}

const OUTCOMES: readonly Outcome[] = [
  { state: 'delivered' },
  { state: 'failed', error: 'refused' },
  { state: 'retrying', error: 'no answer', delaySeconds: 0 },
  { state: 'awaiting_ack', deadlineSeconds: 60 },
  { state: 'queued', error: 'stopped' },
]

async function finishAwaiting(pool: Pool): Promise<void> {
  const waiting = await query<{ message_id: string }>(
    pool,
    `select distinct message_id from delivery where state = 'awaiting_ack'`,
  )
  for (const { message_id } of waiting) await takeReceipt(pool, receiptFor(message_id))
}

t.test(
  'redelivery, redispatch, claims, settlements, cut-off claims and stalling at once never contradict each other',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, ...TARGETS)
    const messages = Array.from({ length: MESSAGES }, () => newMessage())
    await accept(pool, messages)
    const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T
    const old: ClaimedDelivery[] = []
    let fencing = new Map<number, number>()
    const fencingGrows = async (): Promise<void> => {
      const rows = await query<{ id: number; fencing: number }>(pool, 'select id, fencing from delivery')
      t.ok(rows.every(({ id, fencing: now }) => now >= (fencing.get(id) ?? 0)))
      fencing = new Map(rows.map((row) => [row.id, row.fencing]))
    }
    const acts: readonly (() => Promise<unknown>)[] = [
      async () => {
        const claimed = await claim(pool, claimFor(pick(TARGETS), 3))
        old.push(...claimed)
        for (const each of claimed)
          if (Math.random() < 0.8) await settle(pool, [settlementOf(each, pick(OUTCOMES))])
      },
      // A settlement long after its claim, which may be lost by then.
      async () => {
        const late = old.length > 0 ? pick(old) : undefined
        if (late !== undefined) await settle(pool, [settlementOf(late, { state: 'failed', error: 'late' })])
      },
      async () => {
        const message = await findMessage(pool, pick(messages).id)
        const delivery = pick(message?.deliveries ?? [])
        if (message !== null && delivery !== undefined)
          await redeliver(pool, { messageId: message.id, deliveryId: String(delivery.id) }, 'somebody')
      },
      () => redispatch(pool, pick(messages).id, 'somebody'),
      () => takeBack(pool, 'node/a/'),
      () => finishAwaiting(pool),
      async () => {
        await passTime(pool, 10)
        await stallWaiting(pool, 1)
      },
    ]
    await Promise.all(
      Array.from({ length: WORKERS }, async () => {
        for (let round = 0; round < ROUNDS; round += 1) {
          await pick(acts)()
          t.same(await query(pool, CONTRADICTIONS), [])
        }
      }),
    )
    await fencingGrows()
    for (const { id } of messages) {
      const message = await findMessage(pool, id)
      t.equal(message === null ? 'lost' : brokenChain(message), null)
      t.equal(message?.deliveries.length, TARGETS.length, 'no delivery is made twice')
    }
    // Nothing is left in a state that nobody can move: all of it can be delivered in the end.
    await takeBack(pool, 'node/')
    await finishAwaiting(pool)
    for (const { id } of messages) {
      const message = await findMessage(pool, id)
      for (const delivery of message?.deliveries ?? [])
        await redeliver(pool, { messageId: id, deliveryId: String(delivery.id) }, 'somebody')
    }
    for (const target of TARGETS) {
      const claimed = await claim(pool, claimFor(target, 2 * MESSAGES))
      t.equal(claimed.length, MESSAGES)
      await settle(
        pool,
        claimed.map((each) => settlementOf(each, { state: 'delivered' })),
      )
    }
    await fencingGrows()
    const final = await Promise.all(messages.map(({ id }) => findMessage(pool, id)))
    t.ok(final.every((message) => message?.status === 'Delivered'))
  },
)

t.test('of one delivery that is redelivered and settled at the same moment, one comes first', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  for (let round = 0; round < 20; round += 1) {
    const message = newMessage()
    await accept(pool, [message])
    const [claimed] = await claim(pool, claimFor('a', 1))
    if (claimed === undefined) return t.fail('nothing was claimed')
    const ids = { messageId: message.id, deliveryId: String(claimed.id) }
    const [settled, asked] = await Promise.all([
      settle(pool, [settlementOf(claimed, { state: 'delivered' })]),
      redeliver(pool, ids, 'somebody'),
      redispatch(pool, message.id, 'somebody'),
    ])
    t.equal(settled.size, 1, 'the claim was not lost')
    const found = await findMessage(pool, message.id)
    t.match(
      found,
      asked?.requeued === true
        ? { status: 'InProgress', stage: 'dispatched', deliveries: [{ state: 'queued', attempts: 0 }] }
        : { status: 'Delivered', stage: 'settled', deliveries: [{ state: 'delivered', attempts: 1 }] },
    )
    t.equal(found === null ? 'lost' : brokenChain(found), null)
    // The next round claims its own message.
    await pool.query('delete from message')
  }
})

t.test('a redelivery that is refused keeps no claim from its delivery', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage()
  await accept(pool, [message])
  const [waiting] = (await findMessage(pool, message.id))?.deliveries ?? []
  const ids = { messageId: message.id, deliveryId: String(waiting?.id) }
  await transaction(pool, async (client) => {
    t.match(await redeliver(client, ids, 'somebody'), { state: 'queued', requeued: false })
    t.match(
      await claim(pool, claimFor('a', 1)),
      [{ id: waiting?.id }],
      'while the refusal is not committed yet',
    )
  })
})

t.test('of redispatches at the same moment one makes the delivery for a new route', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool)
  const message = newMessage()
  await accept(pool, [message])
  await pool.query(
    `insert into plugin_configuration (name, type, role, enabled, settings, secrets) values ('late', 'test', 'target', true, '{}', '')`,
  )
  await pool.query(`insert into route (source_plugin, target_plugin) values ('source', 'late')`)
  await Promise.all(Array.from({ length: 8 }, () => redispatch(pool, message.id, 'somebody')))
  const found = await findMessage(pool, message.id)
  t.match(found, { status: 'InProgress', deliveries: [{ target: 'late', state: 'queued' }] })
  t.equal(found?.deliveries.length, 1)
  const made = found?.history.filter(
    ({ kind, old_state }) => kind === 'delivery_changed' && old_state === undefined,
  )
  t.equal(made?.length, 1)
  t.equal(await redispatch(pool, randomUUID(), 'somebody'), null)
})
