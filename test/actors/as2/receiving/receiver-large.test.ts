import { hash } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import { readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { allMessages, untilDelivered } from '../../../support/exchanged-messages.ts'
import { reservePort } from '../../../support/reserved-port.ts'
import {
  digestOfFile,
  largeOutgoing,
  notRepeating,
  payloadsOf,
  post,
  storedNames,
  until,
  type Sent,
} from './large-messages.ts'

t.setTimeout(300_000)

const MIB = 1024 * 1024
const { directory, waybill, loop } = await openLoop(t)
const url = loop.receiverUrl
const payloads = payloadsOf(directory)

const receiptOf = ({ headers, body }: Sent) =>
  readReceipt({ headers, body, signers: [loop.globex.keys.certificate] })

async function recordsOf(messageId: string) {
  return (await allMessages(waybill)).filter(({ protocols }) => protocols.as2?.message_id === messageId)
}

t.test('a message of 64 MB, signed, encrypted and compressed, arrives with equal bytes', async (t) => {
  const message = largeOutgoing(loop, { content: notRepeating(64_000_000) })
  const composed = await composeMessage(message)
  const sent = await post(url, composed.headers, { body: composed.body, chunked: true })
  t.equal(sent.status, 200)
  const receipt = await receiptOf(sent)
  t.match(receipt, { signed: true, disposition: { type: 'processed', modifier: null } })
  t.ok(receipt.mic !== null && micEquals(receipt.mic, composed.mic))
  await untilDelivered(waybill, 1)
  t.equal(await digestOfFile(join(loop.inbox, message.fileName ?? '')), hash('sha256', message.content))
  const [record] = await recordsOf(message.messageId)
  t.match(record, { size_bytes: 64_000_000, status: 'Delivered' })
  t.equal(await digestOfFile(join(payloads, record?.id ?? '', 'received')), hash('sha256', composed.body))
})

t.test(
  'a large message that came before gets its receipt again, byte for byte, and is stored once',
  async (t) => {
    const message = largeOutgoing(loop)
    const { headers, body } = await composeMessage(message)
    const first = await post(url, headers, { body })
    const before = await storedNames(payloads)
    const again = await Promise.all([
      post(url, headers, { body }),
      post(url, headers, { body, chunked: true }),
    ])
    for (const { status, body: receipt } of again) {
      t.equal(status, 200)
      t.ok(receipt.equals(first.body))
    }
    const [record, ...others] = await recordsOf(message.messageId)
    t.same(others, [])
    t.equal(record?.history.filter(({ kind }) => kind === 'duplicate_received').length, 2)
    t.same(await storedNames(payloads), before)
  },
)

t.test('the same large message five times at once is one message with one receipt', async (t) => {
  const message = largeOutgoing(loop)
  const { headers, body } = await composeMessage(message)
  const answers = await Promise.all(Array.from({ length: 5 }, () => post(url, headers, { body })))
  t.ok(
    answers.every(
      ({ status, body: receipt }) => status === 200 && receipt.equals(answers[0]?.body ?? receipt),
    ),
  )
  const [record, ...others] = await recordsOf(message.messageId)
  t.same(others, [])
  t.equal(record?.history.filter(({ kind }) => kind === 'duplicate_received').length, 4)
})

t.test('a large message that is refused keeps what came in, and nothing of what was inside', async (t) => {
  const message = largeOutgoing(loop, { encryption: null })
  const composed = await composeMessage(message)
  const damaged = Buffer.from(composed.body)
  damaged[damaged.length / 2] = (damaged[damaged.length / 2] ?? 0) ^ 1
  const unencrypted = await post(url, composed.headers, { body: damaged })
  t.match(await receiptOf(unencrypted), { disposition: { modifier: { text: 'integrity-check-failed' } } })
  const [record] = await recordsOf(message.messageId)
  t.match(record, { status: 'Refused', deliveries: [] })
  const stages = async (): Promise<string[]> =>
    (await storedNames(payloads)).filter((name) => name.startsWith(`${record?.id}/`))
  t.same(await stages(), [`${record?.id}/received`])
  t.equal(await digestOfFile(join(payloads, record?.id ?? '', 'received')), hash('sha256', damaged))
})

t.test('small messages that expand to large ones arrive with equal bytes, many at once too', async (t) => {
  const contents = Array.from({ length: 6 }, (_, each) =>
    Buffer.alloc(12 * MIB, `of message ${each} a line\n`),
  )
  const messages = contents.map((content) => largeOutgoing(loop, { content }))
  const composed = await Promise.all(messages.map((message) => composeMessage(message)))
  t.ok(composed.every(({ body }) => body.length < MIB / 4))
  const answers = await Promise.all(composed.map(({ headers, body }) => post(url, headers, { body })))
  for (const [at, answer] of answers.entries()) {
    t.equal(answer.status, 200)
    const receipt = await receiptOf(answer)
    t.match(receipt, { signed: true, disposition: { type: 'processed', modifier: null } })
    const made = composed[at]
    t.ok(receipt.mic !== null && made !== undefined && micEquals(receipt.mic, made.mic))
    const [record, ...others] = await recordsOf(messages[at]?.messageId ?? '')
    t.same(others, [])
    t.match(record, { size_bytes: 12 * MIB })
    const [received, unpacked] = ['received', 'unpacked'].map((stage) =>
      digestOfFile(join(payloads, record?.id ?? '', stage)),
    )
    t.equal(await received, hash('sha256', made?.body ?? ''))
    t.equal(await unpacked, hash('sha256', contents[at] ?? ''))
  }
  const again = await post(url, composed[0]?.headers ?? [], { body: composed[0]?.body ?? Buffer.alloc(0) })
  t.ok(again.body.equals(answers[0]?.body ?? Buffer.alloc(0)), 'a repeat gets the same receipt')
})

t.test('a large message of strangers is kept and refused', async (t) => {
  const message = largeOutgoing(loop, { as2From: 'NOBODY' })
  const { headers, body } = await composeMessage(message)
  const sent = await post(url, headers, { body })
  t.match(sent.body.toString(), /unknown-trading-relationship/)
  const [record] = await recordsOf(message.messageId)
  t.match(record, { status: 'Refused', size_bytes: body.length })
})

t.test('a message that is cut off leaves nothing', async (t) => {
  const message = largeOutgoing(loop, { content: notRepeating(8 * MIB) })
  const { headers, body } = await composeMessage(message)
  await until(
    'nothing is under way',
    async () => !(await storedNames(payloads)).some((name) => name.startsWith('.incoming/')),
  )
  const before = await storedNames(payloads)
  const sending = request(url, {
    method: 'POST',
    headers: { ...Object.fromEntries(headers), 'Content-Length': String(body.length) },
  })
  const closed = new Promise((resolve) => sending.on('error', () => undefined).on('close', resolve))
  sending.write(body.subarray(0, 6 * MIB))
  await until('it comes in', async () =>
    (await storedNames(payloads)).some((name) => name.startsWith('.incoming/')),
  )
  sending.destroy()
  await closed
  await until('it is gone', async () => (await storedNames(payloads)).join() === before.join())
  t.same(await recordsOf(message.messageId), [])
})

t.test('more than the receiver takes is refused while it comes in, and nothing of it stays', async (t) => {
  const place = await reservePort()
  await waybill.request('POST', '/plugins/configs?type=as2-receiver', {
    name: 'small',
    ...place,
    max_message_bytes: 4 * MIB,
  })
  await waybill.request('POST', '/services/as2-receiver/small/start')
  const small = `http://${place.host}:${place.port}/as2`
  const large = largeOutgoing(loop, { content: notRepeating(6 * MIB), compression: 'None' })
  const tooLarge = await composeMessage(large)
  const before = await storedNames(payloads)
  const sent = await post(small, tooLarge.headers, { body: tooLarge.body, chunked: true })
  t.equal(sent.status, 413)
  t.match(sent.body.toString(), /larger than 4194304 bytes/)
  await until('nothing is left', async () => (await storedNames(payloads)).join() === before.join())
  t.match(await recordsOf(large.messageId), [{ status: 'Refused', size_bytes: 0 }])

  const expanding = largeOutgoing(loop, {
    content: Buffer.concat([notRepeating(2 * MIB), Buffer.alloc(2 * MIB + 1)]),
  })
  const composed = await composeMessage(expanding)
  const receipt = await receiptOf(await post(small, composed.headers, { body: composed.body }))
  t.match(receipt, { disposition: { modifier: { text: 'unexpected-processing-error' } } })
  const [record] = await recordsOf(expanding.messageId)
  t.match(record?.history[0]?.text, /more than 4194304 bytes/)
})
