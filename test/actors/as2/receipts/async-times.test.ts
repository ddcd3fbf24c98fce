import t from 'tap'
import type { Disposition } from '../../../../actors/as2/protocol/disposition.ts'
import type { OutgoingReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { passTime } from '../../../storage/exchange/fixture.ts'
import { post, receiptOf, wantedAt, type AsyncPartner } from '../../../support/async-partner.ts'
import { hasFailed, isDelivered, receiptLines, startSite, waits, type Message } from './async-site.ts'

t.setTimeout(300_000)

const { waybill, pool, loop, globex, change, send, untilSo } = await startSite(t)
const NEGATIVE: Disposition = { type: 'failed', modifier: { kind: 'failure', text: 'unsupported format' } }
const HOUR_SECONDS = 3_600

/** The receipt is there before the answer is. */
function receiptFirst(
  answer: AsyncPartner['onMessage'],
  changes: Partial<OutgoingReceipt> = {},
): AsyncPartner['onMessage'] {
  return async (message, response) => {
    await post(wantedAt(message), await receiptOf(message, loop.globex.keys, changes))
    await answer(message, response)
  }
}

const ANSWERS: Readonly<Record<string, AsyncPartner['onMessage']>> = {
  // The first of all: over a kept connection that ends so the message would be sent again at once.
  'an end of the connection': async (_, response) => void response.destroy(),
  'status 200': async (_, response) => void response.end(),
  'status 500': async (_, response) => void response.writeHead(500).end(),
}

for (const [name, answer] of Object.entries(ANSWERS)) {
  void t.test(`a receipt that comes before ${name} counts, and the message is sent once`, async (t) => {
    globex.onMessage = receiptFirst(answer)
    const message = await send(`early, then ${name}.edi`, isDelivered)
    t.match(message, {
      deliveries: [{ state: 'delivered', attempts: 1, last_error: null }],
      protocols: { as2: { receipt: { state: 'received', mic_matches: true } } },
    })
    t.equal(receiptLines(message).length, 1)
    const kinds = message.history.map(({ kind }) => kind)
    t.ok(kinds.indexOf('mdn_received') < kinds.lastIndexOf('delivery_changed'))
  })
}

void t.test('a negative receipt that comes before the answer fails the delivery', async (t) => {
  globex.onMessage = receiptFirst(async (_, response) => void response.end(), { disposition: NEGATIVE })
  const message = await send('early no.edi', hasFailed)
  t.match(message.deliveries, [{ state: 'failed', attempts: 1, last_error: /unsupported format/ }])
  t.match(message.protocols.as2?.receipt, { state: 'refused' })
})

void t.test(
  'a receipt that comes while the message waits for its next attempt ends the waiting',
  async (t) => {
    await waybill.request('PUT', '/plugins/configs/as2-sender/sender', {
      retry_initial_seconds: 600,
      retry_max_seconds: 600,
    })
    await waybill.request('POST', '/services/as2-sender/sender/restart')
    globex.onMessage = async (_, response) => void response.destroy()
    const { id, protocols } = await send('between.edi', ({ status }) => status === 'Retrying')
    const isIt = ({ messageId }: { messageId: string | null }): boolean =>
      messageId === protocols.as2?.message_id
    const arrived = globex.messages.find(isIt)
    if (arrived === undefined) throw new Error('It did not arrive')
    t.equal((await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))).status, 200)
    const message = await untilSo(id, isDelivered)
    t.match(message.deliveries, [{ state: 'delivered', attempts: 2 }])
    t.equal(globex.messages.filter(isIt).length, 1, 'it was not sent again')
  },
)

void t.test('a message that is delivered again waits for its receipt again', async (t) => {
  globex.onMessage = receiptFirst(async (_, response) => void response.end(), { disposition: NEGATIVE })
  const { id } = await send('twice.edi', hasFailed)
  const failed = await waybill.request<Message>('GET', `/messages/${id}`)
  t.match(failed.protocols.as2?.receipt, { state: 'refused', disposition: /unsupported format/ })
  globex.onMessage = async (_, response) => void response.end()
  await waybill.request('POST', `/messages/${id}/deliveries/${failed.deliveries[0]?.id}/redeliver`)
  const message = await untilSo(id, waits)
  t.same(message.protocols.as2?.receipt, failed.protocols.as2?.receipt, 'what it said before stays so long')
  const arrived = globex.messages.at(-1)
  if (arrived === undefined) throw new Error('It did not arrive')
  await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))
  t.match(await untilSo(id, isDelivered), { protocols: { as2: { receipt: { state: 'received' } } } })
})

void t.test(
  'without a receipt by the deadline the delivery has failed, and a later one is told',
  async (t) => {
    await change({ receipt_timeout_hours: 2 })
    globex.onMessage = async (_, response) => void response.end()
    const { id } = await send('late.edi', waits)
    const arrived = globex.messages.at(-1)
    if (arrived === undefined) throw new Error('It did not arrive')
    await passTime(pool, 2 * HOUR_SECONDS - 300)
    const still = await waybill.request<{ status: string }>('GET', `/messages/${id}`)
    t.equal(still.status, 'AwaitingReceipt')
    await passTime(pool, 600)
    const failed = await untilSo(id, hasFailed)
    t.match(failed, {
      deliveries: [{ state: 'failed', last_error: 'No receipt came by its deadline' }],
      protocols: { as2: { receipt: { state: 'overdue' } } },
    })
    const receipt = await receiptOf(arrived, loop.globex.keys)
    for (const _ of [1, 2]) t.equal((await post(wantedAt(arrived), receipt)).status, 200)
    const told = await untilSo(id, hasFailed)
    t.same(told.deliveries, failed.deliveries, 'the delivery stays as it is')
    t.equal(told.status, 'Error', 'and so does the message')
    t.match(told.protocols.as2?.receipt, {
      state: 'received',
      mic_matches: true,
      message_id: '<receipt@globex>',
    })
    t.match(receiptLines(told), [
      /^mdn_received: .*; processed \(it came too late\)$/,
      /^mdn_received: .*; processed \(the message had its receipt before\)$/,
    ])
    const stage = await fetch(`${waybill.url}/api/v1/messages/${id}/payload?stage=receipt`)
    t.equal(stage.status, 200)
    await change({ receipt_timeout_hours: 24 })
  },
)

void t.test('a receipt that comes after a refusal by HTTP status has missed no deadline', async (t) => {
  globex.onMessage = async (_, response) => void response.writeHead(400).end()
  const { id } = await send('refused.edi', hasFailed)
  const arrived = globex.messages.at(-1)
  if (arrived === undefined) throw new Error('It did not arrive')
  t.equal((await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))).status, 200)
  const told = await untilSo(id, hasFailed)
  t.match(receiptLines(told), [/^mdn_received: .*; processed \(no delivery waited for it\)$/])
  t.match(told.protocols.as2?.receipt, { state: 'received', mic_matches: true })
})

void t.test('one receipt acknowledges every delivery of the message that waits for it', async (t) => {
  const retry = { retry_initial_seconds: 1, retry_max_seconds: 2 }
  await waybill.request('POST', '/plugins/configs?type=as2-sender', { name: 'other', ...retry })
  await waybill.request('POST', '/services/as2-sender/other/start')
  await waybill.request('POST', '/routes', { source_plugin: 'poller', target_plugin: 'other' })
  globex.onMessage = async (_, response) => void response.end()
  const { id, protocols } = await send('both.edi', waits)
  const arrived = globex.messages.filter(({ messageId }) => messageId === protocols.as2?.message_id)
  t.equal(arrived.length, 2)
  const [first] = arrived
  if (first === undefined) throw new Error('It did not arrive')
  await post(wantedAt(first), await receiptOf(first, loop.globex.keys))
  const message = await untilSo(id, isDelivered)
  t.match(message.deliveries, [{ state: 'delivered' }, { state: 'delivered' }])
  t.equal(receiptLines(message).length, 2, 'one line for each')
})
