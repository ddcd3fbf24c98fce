import { hash, randomUUIDv7 } from 'node:crypto'
import t from 'tap'
import { findMessage, listMessages, type MessageView } from '../../../storage/exchange/messages.ts'
import { journaled } from '../../../storage/exchange/stages.ts'
import type { Status } from '../../../storage/exchange/states.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim, renewLeases, takeBack } from '../../../storage/sql/claim.ts'
import { dispatch } from '../../../storage/sql/dispatch.ts'
import { findDuplicate, noteDuplicate } from '../../../storage/sql/duplicate.ts'
import { announceWaiting, reclaim } from '../../../storage/sql/maintain.ts'
import { settle, type Outcome } from '../../../storage/sql/settle.ts'
import { createTestDatabase } from '../../support/database.ts'
import { claimFor, newMessage, passTime, routesTo, settlementOf } from './fixture.ts'

t.setTimeout(300_000)

/** The history as words: `Received`, `b queued`, `b queued>delivering`. */
function story(message: MessageView | null): string[] {
  return (message?.history ?? []).map((line) => {
    if (line.kind === 'status_changed') return String(line.new_status)
    if (line.kind === 'delivery_changed')
      return `${line.target} ${line.old_state === undefined ? '' : `${line.old_state}>`}${line.new_state}`
    return line.kind
  })
}

void t.test(
  'a message is accepted with its payload, its deliveries and its history in one commit',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, 'b', 'a')
    const message = newMessage()
    const [accepted] = await accept(pool, [message])
    t.match(accepted, { id: message.id, status: 'InProgress' })
    const found = await findMessage(pool, message.id)
    t.match(found, {
      stage: 'dispatched',
      from: 'acme',
      to: 'globex',
      file_name: 'invoice.edi',
      size_bytes: 7,
      settled_at: null,
    })
    t.same(
      found?.deliveries.map(({ target, state, attempts }) => ({ target, state, attempts })),
      [
        { target: 'a', state: 'queued', attempts: 0 },
        { target: 'b', state: 'queued', attempts: 0 },
      ],
    )
    t.same(story(found), ['Received', 'a queued', 'b queued', 'InProgress'])
    t.equal(found?.payloads['unpacked']?.size_bytes, 7)
    t.same(await query(pool, 'select bytes from journal'), [{ bytes: Buffer.from('payload') }])
  },
)

void t.test('many messages of one statement keep their own stages apart', async (t) => {
  const { pool } = await createTestDatabase(t)
  const messages = [0, 1, 2, 3].map((number) => {
    const unpacked = Buffer.alloc(number * 1000, number)
    return newMessage({
      stages: [journaled('unpacked', unpacked), journaled('headers', Buffer.from(`h${number}`))],
    })
  })
  await accept(pool, messages)
  const rows = await query<{ message_id: string; stage: string; bytes: Buffer }>(
    pool,
    'select message_id, stage, bytes from journal',
  )
  for (const { id, stages } of messages) {
    for (const { stage, bytes } of stages) {
      t.same(rows.find((row) => row.message_id === id && row.stage === stage)?.bytes, bytes)
    }
  }
})

void t.test('a message without a route is NotRouted and settled', async (t) => {
  const { pool } = await createTestDatabase(t)
  const message = newMessage()
  await accept(pool, [message])
  const found = await findMessage(pool, message.id)
  t.match(found, { status: 'NotRouted', stage: 'settled', settled_at: Date })
  t.same(story(found), ['Received', 'NotRouted'])
})

void t.test('a refused message is settled at once, matches no route and keeps its reason', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage({ refusal: 'The signature does not verify' })
  await accept(pool, [message])
  const found = await findMessage(pool, message.id)
  t.match(found, { status: 'Refused', stage: 'settled', deliveries: [] })
  t.equal(found?.history[0]?.text, 'The signature does not verify')
})

void t.test(
  'a message that its source still owns is accepted, and dispatched once when it lets go',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, 'a')
    const message = newMessage({ dispatch: false, sourceReference: '{}' })
    await accept(pool, [message])
    t.match(await findMessage(pool, message.id), { status: 'Received', stage: 'accepted', deliveries: [] })
    const both = await Promise.all([dispatch(pool, [message.id]), dispatch(pool, [message.id])])
    t.equal(both.flat().length, 1)
    const found = await findMessage(pool, message.id)
    t.same(story(found), ['Received', 'a queued', 'InProgress'])
  },
)

void t.test('the same duplicate key makes one message, however many come at once', async (t) => {
  const { pool } = await createTestDatabase(t)
  const duplicateKey = hash('sha256', 'the same', 'buffer')
  const batches = Array.from({ length: 20 }, () => [newMessage({ duplicateKey }), newMessage()])
  const accepted = await Promise.all(batches.map((batch) => accept(pool, batch)))
  t.equal(accepted.flat().length, 21)
  const { total } = await listMessages(pool, {}, { limit: 50, offset: 0 })
  t.equal(total, 21)
  const id = (await findDuplicate(pool, duplicateKey))?.id ?? ''
  t.equal(await findDuplicate(pool, duplicateKey, id), null, 'it is no repeat of itself')
  for (let time = 0; time < 105; time += 1) await noteDuplicate(pool, id, 'came again')
  const lines = story(await findMessage(pool, id)).filter((line) => line === 'duplicate_received')
  t.equal(lines.length, 100, 'whoever repeats it for ever does not fill its history')
})

const OUTCOMES: readonly (readonly [Outcome, Status, boolean])[] = [
  [{ state: 'delivered' }, 'Delivered', true],
  [{ state: 'failed', error: 'refused' }, 'Error', true],
  [{ state: 'awaiting_ack', deadlineSeconds: 60 }, 'AwaitingReceipt', false],
  [{ state: 'retrying', error: 'no answer', delaySeconds: 60 }, 'Retrying', false],
  [{ state: 'queued', error: 'stopped' }, 'InProgress', false],
]

for (const [outcome, status, settled] of OUTCOMES) {
  void t.test(`an attempt that ends as ${outcome.state} makes the message ${status}`, async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, 'a')
    const message = newMessage()
    await accept(pool, [message])
    const [claimed] = await claim(pool, claimFor('a'))
    if (claimed === undefined) return t.fail('nothing was claimed')
    t.match(claimed, { attempts: 1, fencing: 1, message_id: message.id, unpacked: Buffer.from('payload') })
    t.ok((await settle(pool, [settlementOf(claimed, outcome)])).has(claimed.id))
    const found = await findMessage(pool, message.id)
    t.equal(found?.status, status)
    t.equal(found?.stage, settled ? 'settled' : 'dispatched')
    const [delivery] = found?.deliveries ?? []
    t.equal(delivery?.state, outcome.state)
    t.equal(delivery?.last_error, 'error' in outcome ? outcome.error : null)
    t.equal(delivery?.next_attempt_at === null, outcome.state !== 'retrying')
    t.same(story(found).slice(3, 5), ['a queued>delivering', `a delivering>${outcome.state}`])
  })
}

void t.test('a claim never takes more than its limit, oldest first, and no delivery twice', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const messages = Array.from({ length: 30 }, () => newMessage())
  for (const message of messages) await accept(pool, [message])
  const first = await claim(pool, claimFor('a', 4))
  t.same(
    first.map(({ message_id }) => message_id),
    messages.slice(0, 4).map(({ id }) => id),
  )
  const rest = await Promise.all(Array.from({ length: 10 }, () => claim(pool, claimFor('a', 3))))
  t.ok(rest.every((batch) => batch.length <= 3))
  const ids = [first, ...rest].flat().map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
})

void t.test('a settle with an old fencing number changes nothing', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage()
  await accept(pool, [message])
  const [old] = await claim(pool, claimFor('a'))
  t.equal(await takeBack(pool, 'node/a/'), 1)
  const [present] = await claim(pool, claimFor('a'))
  if (old === undefined || present === undefined) return t.fail('nothing was claimed')
  t.equal(present.fencing, old.fencing + 1)
  t.equal((await settle(pool, [settlementOf(old, { state: 'failed', error: 'late' })])).size, 0)
  t.match(await findMessage(pool, message.id), {
    status: 'InProgress',
    deliveries: [{ state: 'delivering', attempts: 2 }],
  })
  t.equal((await settle(pool, [settlementOf(present, { state: 'delivered' })])).size, 1)
})

void t.test('a claim whose lease has ended goes back to queued, one that is renewed does not', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await accept(pool, [newMessage()])
  await claim(pool, claimFor('a'))
  await passTime(pool, 40)
  t.equal(await renewLeases(pool, { target: 'a', owner: claimFor('a').owner, leaseSeconds: 60 }), 1)
  await passTime(pool, 40)
  t.same([...(await reclaim(pool))], [])
  await passTime(pool, 40)
  t.same([...(await reclaim(pool))], [['a', 1]])
  t.equal((await claim(pool, claimFor('a'))).length, 1)
})

void t.test('a retry is claimed when it is due and not before', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage()
  await accept(pool, [message])
  const [claimed] = await claim(pool, claimFor('a'))
  if (claimed === undefined) return t.fail('nothing was claimed')
  await settle(pool, [settlementOf(claimed, { state: 'retrying', error: 'no answer', delaySeconds: 60 })])
  await passTime(pool, 40)
  t.same(await claim(pool, claimFor('a')), [])
  t.same(await announceWaiting(pool, 5), [])
  await passTime(pool, 20)
  t.same(await announceWaiting(pool, 5), ['a'])
  t.match((await claim(pool, claimFor('a')))[0], { attempts: 2 })
  t.equal((await findMessage(pool, message.id))?.status, 'InProgress')
})

void t.test(
  'the status of a message with two deliveries follows both, settled at the same moment',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, 'a', 'b')
    const messages = Array.from({ length: 20 }, () => newMessage())
    await accept(pool, messages)
    const [ofA, ofB] = await Promise.all([claim(pool, claimFor('a', 50)), claim(pool, claimFor('b', 50))])
    const outcome: Outcome = { state: 'delivered' }
    await Promise.all([...ofA, ...ofB].map((claimed) => settle(pool, [settlementOf(claimed, outcome)])))
    for (const { id } of messages)
      t.match(await findMessage(pool, id), { status: 'Delivered', stage: 'settled' })
  },
)

void t.test('an outcome brings its facts, its receipt and its line into the record', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  const message = newMessage({ protocols: { other: 1 } })
  await accept(pool, [message])
  const [claimed] = await claim(pool, claimFor('a'))
  if (claimed === undefined) return t.fail('nothing was claimed')
  await settle(pool, [
    {
      ...settlementOf(claimed, { state: 'delivered' }),
      protocols: { as2: { mic: 'x' } },
      stage: journaled('receipt', Buffer.from('the receipt')),
      line: { kind: 'mdn_received', text: 'processed' },
    },
  ])
  const found = await findMessage(pool, message.id)
  t.same(found?.protocols, { other: 1, as2: { mic: 'x' } })
  t.equal(found?.payloads['receipt']?.size_bytes, 11)
  t.same(story(found).slice(-3), ['mdn_received', 'a delivering>delivered', 'Delivered'])
})

void t.test('lists are filtered, paged and counted', async (t) => {
  const { pool } = await createTestDatabase(t)
  const messages = [newMessage(), newMessage({ to: 'other' }), newMessage({ refusal: 'no' })]
  for (const message of messages) await accept(pool, [message])
  const ids = async (filter: Parameters<typeof listMessages>[1], limit = 10, offset = 0): Promise<string[]> =>
    (await listMessages(pool, filter, { limit, offset })).messages.map(({ id }) => id)
  const [first, second, third] = messages.map(({ id }) => id)
  t.same(await ids({}), [third, second, first])
  t.same(await ids({}, 1, 1), [second])
  t.same(await ids({ to: 'other' }), [second])
  t.same(await ids({ status: 'Refused' }), [third])
  t.same(await ids({ since: new Date(Date.now() + 60_000).toISOString() }), [])
  t.equal((await listMessages(pool, { from: 'acme' }, { limit: 1, offset: 0 })).total, 3)
  t.equal(await findMessage(pool, randomUUIDv7()), null)
})

void t.test(
  'a claim answers every delivery that it takes, also of messages accepted at that moment',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await routesTo(pool, 'a')
    const total = 300
    let accepted = 0
    const accepting = Promise.all(
      Array.from({ length: 3 }, async () => {
        for (; accepted < total; accepted += 1) await accept(pool, [newMessage()])
      }),
    )
    const claimed = new Set<number>()
    const claimAll = async (): Promise<void> => {
      for (const { id } of await claim(pool, claimFor('a', 100))) claimed.add(id)
    }
    const claiming = (async () => {
      for (;;) {
        await claimAll()
        if (accepted >= total) break
      }
    })()
    await Promise.all([accepting, claiming])
    await claimAll()
    const [row] = await query<{ taken: number }>(
      pool,
      `select count(*) as taken from delivery where state = 'delivering'`,
    )
    t.equal(claimed.size, row?.taken)
  },
)
