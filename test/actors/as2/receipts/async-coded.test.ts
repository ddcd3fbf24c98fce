import t from 'tap'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { composeMessage, type ComposedMessage } from '../../../../actors/as2/protocol/compose.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { post, receiptOf, wantedAt } from '../../../support/async-partner.ts'
import { isDelivered, receiptLines, startSite, waits } from './async-site.ts'

/** Receipts that come by themselves in a content coding (RFC 9110 §8.4). */

t.setTimeout(300_000)

const { waybill, loop, globex, send, untilSo } = await startSite(t)
const gzipped = { coding: 'gzip', code: (body: Buffer): Buffer => gzipSync(body) }

type Composed = Pick<ComposedMessage, 'headers' | 'body'>

const coded = ({ headers, body }: Composed, { coding, code } = gzipped): Composed => ({
  headers: [...headers, ['Content-Encoding', coding]],
  body: code(body),
})

/** A message that waits for its receipt, and that receipt. */
async function waiting(name: string): Promise<{ id: string; url: string; receipt: Composed }> {
  const { id, protocols } = await send(name, waits)
  const arrived = globex.messages.find(({ messageId }) => messageId === protocols.as2?.message_id)
  if (arrived === undefined) throw new Error('It did not arrive')
  return { id, url: wantedAt(arrived), receipt: await receiptOf(arrived, loop.globex.keys) }
}

for (const coding of [gzipped, { coding: 'deflate', code: (body: Buffer): Buffer => deflateSync(body) }]) {
  void t.test(`a receipt in ${coding.coding} counts, and is kept as what it is`, async (t) => {
    const { id, url, receipt } = await waiting(`${coding.coding}.edi`)
    t.equal((await post(url, coded(receipt, coding))).status, 200)
    const message = await untilSo(id, isDelivered)
    t.equal(receiptLines(message).length, 1)
    const stage = await fetch(`${waybill.url}/api/v1/messages/${id}/payload?stage=receipt`)
    const kept = Buffer.from(await stage.arrayBuffer())
    t.ok(kept.subarray(-receipt.body.length).equals(receipt.body))
    t.notMatch(kept.toString('latin1'), /content-encoding/i)
  })
}

void t.test('one that expands to more than any receipt is refused, and so is another coding', async (t) => {
  const { id, url, receipt } = await waiting('refused.edi')
  const bomb = { coding: 'gzip', code: () => gzipSync(Buffer.alloc(64 * 2 ** 20)) }
  t.equal((await post(url, coded(receipt, bomb))).status, 413)
  const other = { coding: 'br', code: (body: Buffer): Buffer => brotliCompressSync(body) }
  const { status, headers } = await post(url, coded(receipt, other))
  t.equal(status, 415)
  t.equal(new Map(headers).get('accept-encoding'), 'identity')
  t.same(receiptLines(await untilSo(id, waits)), [])
  // As behind a proxy that undoes the coding and leaves its name.
  const named = { coding: 'gzip', code: (body: Buffer): Buffer => body }
  t.equal((await post(url, coded(receipt, named))).status, 200, 'what only says that it is coded counts')
  await untilSo(id, isDelivered)
})

void t.test('a message in a coding is none, also where its type could be that of a receipt', async (t) => {
  const acme = new As2Correspondent(waybill, loop)
  for (const encryption of [acme.message().encryption, null]) {
    const message = await composeMessage(acme.message({ encryption }))
    t.equal((await acme.post(coded(message).headers, coded(message).body)).status, 415)
    t.same(await acme.recordsOf(message.messageId), [])
  }
})
