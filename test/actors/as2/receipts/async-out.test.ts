import t from 'tap'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import { readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { passTime } from '../../../storage/exchange/fixture.ts'
import type { PostedReceipt } from '../../../support/async-partner.ts'
import { until } from '../../../support/processes.ts'
import { receiptLines } from './async-site.ts'
import { startOwing, stateOf } from './async-owed.ts'

t.setTimeout(300_000)

const { waybill, pool, loop, acme, compose, send, recordOf, untilSo } = await startOwing(t)
const read = ({ headers, body }: PostedReceipt) =>
  readReceipt({ headers, body, signers: [loop.globex.keys.certificate] })
const DAY_SECONDS = 86_400

/** The receipts of a message that came, in order. */
async function receiptsFor(messageId: string): Promise<PostedReceipt[]> {
  const found: PostedReceipt[] = []
  for (const receipt of acme.receipts)
    if ((await read(receipt)).originalMessageId === messageId) found.push(receipt)
  return found
}

void t.test(
  'a message is answered at once and empty, and its receipt is sent to where it was wanted',
  async (t) => {
    const message = await compose()
    const answer = await send(message)
    t.equal(answer.status, 204)
    t.equal(answer.body.length, 0)
    const record = await untilSo(message, (each) => stateOf(each) === 'sent')
    const [receipt, ...others] = await receiptsFor(message.messageId)
    t.same(others, [])
    if (receipt === undefined) throw new Error('No receipt came')
    t.equal(receipt.path, '/as2?of=receipts&n=1', 'the query is kept')
    const said = await read(receipt)
    t.match(said, { signed: true, disposition: { type: 'processed', modifier: null } })
    t.ok(said.mic !== null && micEquals(said.mic, message.mic))
    t.match(record.protocols.as2?.receipt, {
      mode: 'Async',
      state: 'sent',
      at: /Z$/,
      message_id: said.messageId,
    })
    t.same(receiptLines(record), [
      `mdn_received: The partner has taken the receipt, at ${new URL(acme.url).host}`,
    ])
    const stage = await fetch(`${waybill.url}/api/v1/messages/${record.id}/payload?stage=receipt`)
    t.ok(
      Buffer.from(await stage.arrayBuffer())
        .subarray(-receipt.body.length)
        .equals(receipt.body),
    )
  },
)

void t.test('a refused message gets its negative receipt by itself, too', async (t) => {
  const message = await compose({ encryption: null })
  t.equal((await send(message)).status, 204)
  const record = await untilSo(message, (each) => stateOf(each) === 'sent')
  t.equal(record.status, 'Refused')
  const [receipt] = await receiptsFor(message.messageId)
  if (receipt === undefined) throw new Error('No receipt came')
  t.match((await read(receipt)).disposition, { modifier: { text: 'insufficient-message-security' } })
})

void t.test('a receipt is sent again, byte for byte, until it is taken', async (t) => {
  const statuses = [500, 302, 404]
  acme.onReceipt = async (_, response) => {
    const status = statuses.shift()
    response.writeHead(status ?? 202, status === 302 ? { location: acme.url } : {}).end()
  }
  const message = await compose()
  await send(message)
  const count = async (): Promise<number> => (await receiptsFor(message.messageId)).length
  for (const times of [1, 2, 3]) {
    await until(async () => (await count()) >= times)
    await untilSettled()
    await passTime(pool, 3_600)
  }
  await untilSo(message, (each) => stateOf(each) === 'sent')
  const bodies = new Set((await receiptsFor(message.messageId)).map(({ body }) => body.toString('latin1')))
  t.equal(bodies.size, 1)
  t.equal(await count(), 4, 'a redirect is not followed')
  t.match(receiptLines(await recordOf(message)), [
    /^mdn_refused: The partner did not take the receipt, at .*: HTTP status 500\. It is sent again/,
    /^mdn_received: The partner has taken/,
  ])
  acme.onReceipt = async (_, response) => void response.end()
})

/** Until nothing is in hand. */
function untilSettled(): Promise<void> {
  return until(async () => {
    const { rows } = await pool.query('select from receipt_dispatch where lease_owner is not null')
    return rows.length === 0
  })
}

void t.test('a receipt that nobody takes expires after three days, and the history tells', async (t) => {
  acme.onReceipt = async (_, response) => void response.writeHead(503).end()
  const message = await compose()
  await send(message)
  await untilSo(message, (each) => receiptLines(each).length === 1)
  await untilSettled()
  await passTime(pool, 3 * DAY_SECONDS + 1)
  const record = await untilSo(message, (each) => stateOf(each) === 'overdue')
  t.match(receiptLines(record), [
    /did not take the receipt/,
    /^mdn_refused: The receipt has expired: the partner did not take it\. HTTP status 503$/,
  ])
  acme.onReceipt = async (_, response) => void response.end()
  t.equal((await send(message)).status, 204)
  const again = await untilSo(message, (each) => stateOf(each) === 'sent')
  t.equal(again.history.filter(({ kind }) => kind === 'duplicate_received').length, 1)
})

void t.test('a stop cuts a receipt off that nobody answers, and the next start sends it again', async (t) => {
  acme.onReceipt = async () => undefined
  const message = await compose()
  await send(message)
  await until(async () => (await receiptsFor(message.messageId)).length === 1)
  await waybill.request('POST', '/services/as2-receiver/receiver/stop')
  const { rows } = await pool.query('select from receipt_dispatch where lease_owner is not null')
  t.same(rows, [], "it is nobody's")
  acme.onReceipt = async (_, response) => void response.end()
  await waybill.request('POST', '/services/as2-receiver/receiver/start')
  await untilSo(message, (record) => stateOf(record) === 'sent')
  const [first, second, ...others] = await receiptsFor(message.messageId)
  t.same(others, [])
  t.ok(first !== undefined && second?.body.equals(first.body))
})

void t.test('a message that comes again is one message, and its stored receipt is sent again', async (t) => {
  const message = await compose()
  await send(message)
  await untilSo(message, (each) => stateOf(each) === 'sent')
  const answers = await Promise.all(Array.from({ length: 5 }, () => send(message)))
  t.ok(answers.every(({ status, body }) => status === 204 && body.length === 0))
  await until(async () => (await receiptsFor(message.messageId)).length >= 2)
  await untilSettled()
  const receipts = await receiptsFor(message.messageId)
  t.equal(new Set(receipts.map(({ body }) => body.toString('latin1'))).size, 1)
  const record = await recordOf(message)
  t.equal(record.history.filter(({ kind }) => kind === 'duplicate_received').length, 5)
  t.equal(stateOf(record), 'sent')
})

void t.test('a message that first wanted no receipt gets it by itself when it comes again so', async (t) => {
  const message = await compose({ receipt: null })
  t.equal((await send(message)).body.length, 0)
  t.equal(stateOf(await recordOf(message)), undefined)
  const wanting = await compose({ messageId: message.messageId })
  const answers = await Promise.all([1, 2, 3].map(() => send(wanting)))
  t.ok(answers.every(({ status, body }) => status === 204 && body.length === 0))
  const record = await untilSo(message, (each) => stateOf(each) === 'sent')
  t.match(record.protocols.as2?.receipt, { mode: 'Async', state: 'sent' })
  await untilSettled()
  const receipts = await receiptsFor(message.messageId)
  t.ok(receipts.length >= 1)
  t.equal(new Set(receipts.map(({ body }) => body.toString('latin1'))).size, 1, 'it is one receipt')
})

void t.test(
  'a message that wants its receipt by itself and then with the answer gets the same one',
  async (t) => {
    const message = await compose()
    await send(message)
    await untilSo(message, (each) => stateOf(each) === 'sent')
    const headers = message.headers.filter(([name]) => name !== 'Receipt-Delivery-Option')
    const answer = await send({ ...message, headers })
    const [posted] = await receiptsFor(message.messageId)
    t.ok(posted !== undefined && answer.body.equals(posted.body))
  },
)
