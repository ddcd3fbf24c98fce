import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { allMessages, type ExchangedMessage } from '../support/exchanged-messages.ts'
import type { Waybill } from '../support/waybill.ts'
import { COMBINATIONS, type Combination } from './combinations/combination.ts'
import { micOver, unpack } from './combinations/independent-mic.ts'
import {
  forEach,
  organizationOf,
  partyOf,
  recipientKey,
  setUpSites,
  type Sites,
} from './combinations/sites.ts'
import { Openssl } from './openssl.ts'

const PATIENCE_MS = 600_000
const LOOK_MS = 250

t.setTimeout(2 * PATIENCE_MS)

t.test('every combination travels from a sender over the wire to a receiver', async (t) => {
  t.ok(COMBINATIONS.length >= 300)
  const sites = await setUpSites(t)
  const openssl = await Openssl.start(t, sites.recipients)
  const contents = new Map(COMBINATIONS.map((combination) => [combination, contentOf(combination)]))
  await forEach(COMBINATIONS, async (combination) => {
    await sites.sender.upload('/messages', {
      from: organizationOf(combination),
      to: partyOf(combination),
      target: 'sender',
      file: new Blob([new Uint8Array(contents.get(combination) ?? [])]),
    })
  })
  const sent = await settled(sites.sender, 'outbound')
  const received = await settled(sites.receiver, 'inbound')
  for (const combination of COMBINATIONS) {
    await t.test(combination.title, async (t) => {
      const party = partyOf(combination)
      const [outbound, inbound] = [sent.get(party), received.get(party)]
      if (outbound === undefined || inbound === undefined) return t.fail('it did not arrive')
      const { content, covered } = await opened(sites, combination, openssl)
      t.ok(content.equals(contents.get(combination) ?? Buffer.of()), 'what travelled holds the content')
      const mic = micOver(covered, digestOf(sites, combination))
      t.match(outbound, {
        status: 'Delivered',
        protocols: { as2: { mic, receipt: receiptOf(combination) } },
      })
      t.match(inbound, { status: 'NotRouted', protocols: { as2: { mic } } })
      const unpacked = await payloadOf(sites.receiver, inbound)
      t.ok(unpacked.equals(content), 'the content arrived')
    })
  }
})

/** EDI-like text with line ends of both kinds, so that whoever canonicalises is found out. */
function contentOf({ partner }: Combination): Buffer {
  const lines = Array.from({ length: 40 }, (_, line) => `LIN+${line}++${randomBytes(8).toString('hex')}:EN'`)
  return Buffer.from(`UNB+UNOC:3+SENDER+${partner}'\r\n${lines.join('\n')}\r\nUNZ+1+1'`)
}

function opened({ wire }: Sites, combination: Combination, openssl: Openssl) {
  const { headers, body } = wire.of(combination.partner)
  const entity = { contentType: String(headers['content-type']), body, raw: body }
  return unpack(entity, (der) => openssl.decrypt(der, recipientKey(combination)))
}

/** RFC 4130 §7.3.1: that of the signature, else the first that the request for a receipt names, else SHA-1. */
function digestOf({ wire }: Sites, { signature, partner }: Combination): string {
  if (signature !== null) return signature.digest
  const options = String(wire.of(partner).headers['disposition-notification-options'] ?? '')
  const [, named] = /signed-receipt-micalg=\w+,\s*([\w-]+)/.exec(options) ?? []
  return named ?? 'SHA1'
}

function receiptOf({ receipt }: Combination) {
  if (receipt === 'None') return null
  const mode = receipt.split(',')[0]
  return { mode, signed: receipt.endsWith('signed'), state: 'received', mic_matches: true }
}

/** The messages by the partner that they are for, when each has come to its end. */
async function settled(
  waybill: Waybill,
  direction: 'outbound' | 'inbound',
): Promise<Map<string, ExchangedMessage>> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const all = (await allMessages(waybill)).filter((message) => message.direction === direction)
    const open = all.filter(({ settled_at }) => settled_at === null)
    if (all.length >= COMBINATIONS.length && open.length === 0) {
      return new Map(all.map((message) => [message.to, message]))
    }
    if (performance.now() > deadline) {
      const some = JSON.stringify(open.slice(0, 3), null, 2)
      throw new Error(`${all.length} messages, ${open.length} open\n${some}\n${waybill.output.join('\n')}`)
    }
    await sleep(LOOK_MS)
  }
}

async function payloadOf(waybill: Waybill, { id }: ExchangedMessage): Promise<Buffer> {
  const response = await fetch(`${waybill.url}/api/v1/messages/${id}/payload?stage=unpacked`)
  return Buffer.from(await response.arrayBuffer())
}
