import { randomBytes } from 'node:crypto'
import t from 'tap'
import { IN_MEMORY_BYTES } from '../../../../actors/as2/protocol/stream/limits.ts'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { allMessages, type ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { dropFile } from '../../../support/file-set.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

t.setTimeout(300_000)

/** Each side is the other's partner: what one asks for by itself, the other sends by itself. */
const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })
await waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, { receipt_mode: 'Async' })
await startLoop(waybill)

async function both(
  name: string,
  content: string | Buffer = `content of ${name}`,
): Promise<Record<'sent' | 'received', ExchangedMessage>> {
  await dropFile(loop.outbox, name, content)
  let found: { sent: ExchangedMessage; received: ExchangedMessage } | undefined
  await until(async () => {
    const messages = (await allMessages(waybill)).filter(({ file_name }) => file_name === name)
    const sent = messages.find(({ direction }) => direction === 'outbound')
    const received = messages.find(({ direction }) => direction === 'inbound')
    if (sent?.status !== 'Delivered' || received?.protocols.as2?.receipt?.state !== 'sent') return false
    found = { sent, received }
    return true
  })
  if (found === undefined) throw new Error(`${name} did not arrive`)
  return found
}

async function receiptOf({ id }: ExchangedMessage): Promise<string> {
  const response = await fetch(`${waybill.url}/api/v1/messages/${id}/payload?stage=receipt`)
  if (response.status !== 200) throw new Error(`There is no receipt: ${response.status}`)
  return (await response.text()).replace(/^[\s\S]*?\r\n\r\n/, '')
}

void t.test(
  'an asynchronous receipt goes from the partner to the sender, and delivers the message',
  async (t) => {
    const { sent, received } = await both('loop.edi')
    t.match(sent.protocols.as2?.receipt, {
      mode: 'Async',
      signed: true,
      state: 'received',
      disposition: 'automatic-action/MDN-sent-automatically; processed',
      mic_matches: true,
    })
    t.match(received.protocols.as2?.receipt, {
      mode: 'Async',
      signed: true,
      state: 'sent',
      at: /^\d{4}-.*Z$/,
    })
    t.equal(await receiptOf(sent), await receiptOf(received), 'what was stored is what travelled')
    const lines = sent.history.map(({ kind, text }) => [kind, text])
    t.ok(lines.some(([kind, text]) => kind === 'mdn_received' && text?.includes('; processed')))
    t.match(
      received.history.filter(({ kind }) => kind === 'mdn_received'),
      [{ text: /^The partner has taken the receipt, at 127\./ }],
    )
  },
)

void t.test('a message that streams has its receipt by itself, too', async (t) => {
  const { sent } = await both('large.bin', randomBytes(3 * IN_MEMORY_BYTES))
  t.match(sent.protocols.as2?.receipt, { mode: 'Async', state: 'received', mic_matches: true })
})

void t.test('twenty at once are each delivered by their own receipt', async (t) => {
  const names = Array.from({ length: 20 }, (_, index) => `many-${index}.edi`)
  const all = await Promise.all(names.map((name) => both(name)))
  const ids = all.map(({ sent }) => {
    const receipt = sent.protocols.as2?.receipt as { readonly message_id?: string } | undefined
    return receipt?.message_id
  })
  t.equal(new Set(ids).size, names.length)
})
