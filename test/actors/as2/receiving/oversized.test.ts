import t, { type Test } from 'tap'
import { composeMessage, type Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { setUpLoop } from '../../../support/as2-loop.ts'
import { allMessages } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'
import { largeOutgoing, notRepeating, post, until } from './large-messages.ts'

// A sender whose message is too large asks one day where it is.
t.setTimeout(300_000)

const KIB = 1024
const MOST = 1536 * KIB
const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })
const acme = new As2Correspondent(waybill, loop)
await waybill.request('PUT', '/plugins/configs/as2-receiver/receiver', { max_message_bytes: MOST })
await waybill.request('POST', '/services/as2-receiver/receiver/start')

async function send(
  t: Test,
  changes: Partial<Outgoing> = {},
  { chunked = false, kib = 2048 } = {},
): Promise<string> {
  const message = largeOutgoing(loop, { content: notRepeating(kib * KIB), compression: 'None', ...changes })
  const { headers, body } = await composeMessage(message)
  const { status, body: text } = await post(loop.receiverUrl, headers, { body, chunked })
  t.equal(status, 413)
  t.match(String(text), `larger than ${MOST} bytes`)
  return message.messageId
}

for (const { name, chunked, size } of [
  { name: 'its length tells', chunked: false, size: / \(2\d{6}\) / },
  { name: 'it shows while it comes in', chunked: true, size: /more bytes than/ },
]) {
  void t.test(`a message that is larger than is taken is kept by its headers, where ${name}`, async (t) => {
    const messageId = await send(t, {}, { chunked })
    const [record, ...others] = await acme.recordsOf(messageId)
    t.same(others, [])
    if (record === undefined) throw new Error('nothing is recorded')
    t.match(record, { status: 'Refused', from: 'acme', to: 'globex', size_bytes: 0, deliveries: [] })
    const { text = '' } = record.history[0] ?? {}
    t.match(text, `max_message_bytes is ${MOST}. Only its headers are kept`)
    t.match(text, size)
    t.match(String(await acme.stage(record, 'headers')), new RegExp(`message-id: ${messageId}`, 'i'))
    for (const stage of ['received', 'unpacked', 'receipt', 'message'])
      t.equal(await acme.stage(record, stage), null)
  })
}

void t.test('of one whose sender is no partner the log tells', async (t) => {
  const messageId = await send(t, { as2From: 'STRANGER' })
  const told = (): string | undefined => waybill.output.find((line) => line.includes(messageId))
  await until('it is told', async () => told() !== undefined)
  t.match(JSON.parse(told() ?? ''), { as2From: 'STRANGER', as2To: 'GLOBEX AS2', as2MessageId: messageId })
  t.match(told(), /more bytes \(2\d{6}\) than the receiver takes/)
  t.same(await acme.recordsOf(messageId), [])
})

void t.test('headers that name nobody are no hindrance', async (t) => {
  const before = (await allMessages(waybill)).length
  const body = notRepeating(MOST + 1)
  t.equal((await post(loop.receiverUrl, [['Message-ID', '<nobody@acme>']], { body })).status, 413)
  t.equal((await allMessages(waybill)).length, before)
})
