import type { Pool } from 'pg'
import t from 'tap'
import { findMessage } from '../../../storage/exchange/messages.ts'
import {
  adoptReceipts,
  claimReceipts,
  expireReceipts,
  releaseReceipts,
  sendReceiptAgain,
  settleReceipt,
} from '../../../storage/receipts/receipt-dispatches.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { createTestDatabase } from '../../support/database.ts'
import { newMessage, passTime, routesTo } from '../exchange/fixture.ts'

t.setTimeout(300_000)

const LEASE_SECONDS = 100
const URL = 'https://as2.globex.example/receipts'

function claim(pool: Pool, owner = 'node/receiver/run/1', receiver = 'source') {
  return claimReceipts(pool, { receiver, limit: 10, owner, leaseSeconds: LEASE_SECONDS })
}

/** One message that owes its receipt for ten minutes. */
async function owing(t: Parameters<typeof createTestDatabase>[0]) {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await pool.query('update exchange_clock set ticked_at = now()')
  const protocols = { as2: { receipt: { state: 'pending', at: null } }, other: { kept: true } }
  const owed = newMessage({ protocols, receiptDispatch: { url: URL, lastsSeconds: 600 } })
  // In the same statement as one that owes nothing.
  await accept(pool, [newMessage({ protocols }), owed])
  const shown = () => findMessage(pool, owed.id)
  return { pool, id: owed.id, shown }
}

async function linesOf(shown: Awaited<ReturnType<typeof owing>>['shown']): Promise<unknown[]> {
  const lines = (await shown())?.history ?? []
  return lines.filter(({ kind }) => kind.startsWith('mdn_')).map(({ kind, text }) => [kind, text])
}

t.test(
  'what is owed is claimed once, until its time is over, and settled by who claimed it last',
  async (t) => {
    const { pool, id, shown } = await owing(t)
    t.same(
      await claim(pool, 'node/other/run/1', 'other'),
      [],
      'by the receiver alone that took the message in',
    )
    const [first, ...others] = await claim(pool)
    t.same(others, [])
    t.match(first, {
      message_id: id,
      url: URL,
      attempts: 1,
      fencing: 1,
      from_party: 'acme',
      to_party: 'globex',
    })
    if (first === undefined) throw new Error('Nothing was claimed')
    await passTime(pool, LEASE_SECONDS - 50)
    t.same(await claim(pool), [])
    await passTime(pool, 100)
    const [second] = await claim(pool, 'node-2/receiver/run/1')
    t.match(second, { id: first.id, attempts: 2, fencing: 2 })
    t.notOk(await settleReceipt(pool, { id: first.id, fencing: 1, failure: null, line: 'taken' }), 'too late')
    t.match(await shown(), { protocols: { as2: { receipt: { state: 'pending' } } } })
    t.ok(await settleReceipt(pool, { id: first.id, fencing: 2, failure: null, line: 'taken' }))
    t.notOk(await settleReceipt(pool, { id: first.id, fencing: 2, failure: null, line: 'taken' }), 'once')
    t.match(await shown(), {
      protocols: {
        as2: { receipt: { state: 'sent', at: /^\d{4}-\d\d-\d\dT[\d:.]+Z$/ } },
        other: { kept: true },
      },
    })
    t.same(await linesOf(shown), [['mdn_received', 'taken']])
  },
)

t.test('a failure makes it wait, the first one is told, and what has expired is overdue', async (t) => {
  const { pool, shown } = await owing(t)
  const fail = async (error: string): Promise<void> => {
    const [claimed] = await claim(pool)
    if (claimed === undefined) throw new Error('Nothing was claimed')
    const { id, fencing } = claimed
    t.ok(await settleReceipt(pool, { id, fencing, failure: { error, waitSeconds: 200 }, line: error }))
  }
  await fail('no answer')
  await passTime(pool, 190)
  t.same(await claim(pool), [])
  await passTime(pool, 20)
  await fail('HTTP status 500')
  t.equal(await expireReceipts(pool), 0)
  await passTime(pool, 500)
  t.same(await claim(pool), [], 'what has expired is not sent')
  t.equal(await expireReceipts(pool), 1)
  t.equal(await expireReceipts(pool), 0)
  t.match(await shown(), { protocols: { as2: { receipt: { state: 'overdue' } } } })
  t.same(await linesOf(shown), [
    ['mdn_refused', 'no answer'],
    ['mdn_refused', 'The receipt has expired: the partner did not take it. HTTP status 500'],
  ])
})

t.test('what is in hand does not expire, and what a predecessor left is due at once', async (t) => {
  const { pool } = await owing(t)
  await passTime(pool, 550)
  const [first] = await claim(pool)
  await passTime(pool, 80)
  t.equal(await expireReceipts(pool), 0)
  t.ok(await settleReceipt(pool, { id: first?.id ?? 0, fencing: 1, failure: null, line: 'taken' }))
  const again = await owing(t)
  await claim(again.pool, 'node/receiver/run/1')
  t.equal(await releaseReceipts(again.pool, 'node-2/receiver/'), 0)
  t.equal(await releaseReceipts(again.pool, 'node/receiver/'), 1)
  t.match(await claim(again.pool), [{ attempts: 2, fencing: 2 }])
})

t.test('what a receiver owes that is there no more, another one takes over', async (t) => {
  const { pool, id } = await owing(t)
  const adopt = () => adoptReceipts(pool, 'heir')
  t.equal(await adopt(), 0, 'its receiver is there')
  await pool.query(`update plugin_configuration set enabled = false where name = 'source'`)
  t.equal(await adopt(), 1)
  t.equal(await adopt(), 0)
  t.match(await claim(pool, 'node/heir/run/1', 'heir'), [{ message_id: id }])
})

t.test(
  'a stored receipt is ordered again, to few places at a time, and one that was overdue is due',
  async (t) => {
    const { pool, id, shown } = await owing(t)
    const again = (url: string, isFirstPlace = false) =>
      sendReceiptAgain(pool, { messageId: id, receiver: 'source', url, isFirstPlace })
    await passTime(pool, 700)
    t.equal(await expireReceipts(pool), 1)
    t.ok(await again(URL))
    t.ok(await again(URL), 'the same place is one order')
    t.match(await shown(), { protocols: { as2: { receipt: { state: 'pending', at: null } } } })
    const others = await Promise.all([1, 2, 3].map((place) => again(`${URL}?place=${place}`)))
    t.equal(others.filter(Boolean).length, 2)
    t.ok(await again(`${URL}?first`, true), 'where it was wanted first there is always room')
    t.equal((await claim(pool)).length, 4)
    t.ok(await again(URL, true), 'also while it is in hand')
    t.same(await claim(pool), [])
  },
)
