import t from 'tap'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import { post, receiptOf, wantedAt } from '../../../support/async-partner.ts'
import { makeCertificate, type TestCertificate } from '../../../support/certificates.ts'
import { receiptWithin } from '../protocol/opaque-signed.ts'
import { isDelivered, receiptLines, startSite, waits, type Message } from '../receipts/async-site.ts'

// Receipts of a partner that renews its certificate and keeps the key: one that is valid now is enough, whichever of the
// certificates the signature names.
t.setTimeout(300_000)

const { waybill, loop, globex, change, send, untilSo } = await startSite(t)

interface Renewed {
  readonly keys: TestCertificate
  readonly id: number
}

async function renewed(commonName: string, validity: object = {}, key = loop.globex.keys): Promise<Renewed> {
  const keys = makeCertificate({ commonName, key, ...validity })
  const { id } = await waybill.upload<{ id: number }>('/certificates', {
    certificate: new Blob([keys.certificatePem]),
    description: 'of a test',
  })
  return { keys, id }
}

const valid = await renewed('valid')
const expired = await renewed('expired', { days: -10 })
const early = await renewed('early', { age: -10 })
/** In no profile. */
const unknown = await renewed('unknown')
const ofAnotherKey = await renewed('of another key', {}, makeCertificate({ commonName: 'another key' }))

const present = ({ id }: Message) => waybill.request<Message>('GET', `/messages/${id}`)

type Composed = Awaited<ReturnType<typeof receiptOf>>

/** The receipt with its signature beside it, or around it. */
async function receiptBy({ keys }: Renewed, message: Incoming, isOpaque = false): Promise<Composed> {
  if (!isOpaque) return receiptOf(message, keys)
  return receiptWithin(await receiptOf(message, keys, { signature: null }), keys)
}

async function inChangeOver(current: Renewed, previous: Renewed): Promise<void> {
  await change({
    partner_signing_certificate_id: current.id,
    previous_partner_signing_certificate_id: previous.id,
  })
}

const PROCESSED_LINE = 'mdn_received: automatic-action/MDN-sent-automatically; processed'
const CHANGE_OVERS: Readonly<Record<string, readonly [Renewed, Renewed]>> = {
  'the previous one has expired': [valid, expired],
  'the new one is not valid yet': [early, valid],
}

let count = 0
const nextName = (): string => `renewed-${++count}.edi`

function answerWith(receipt: (message: Incoming) => Promise<Composed>): void {
  globex.onMessage = async (message, response) => {
    const { headers, body } = await receipt(message)
    response.writeHead(200, headers.flat()).end(body)
  }
}

for (const [state, [current, previous]] of Object.entries(CHANGE_OVERS)) {
  for (const isOpaque of [false, true]) {
    const form = isOpaque ? 'within its signature' : 'beside its signature'
    void t.test(
      `a receipt ${form} counts, whichever certificate of the key it names: ${state}`,
      async (t) => {
        await inChangeOver(current, previous)
        await change({ receipt_mode: 'Sync' })
        for (const named of [current, previous, unknown]) {
          answerWith((message) => receiptBy(named, message, isOpaque))
          const delivered = await send(nextName(), isDelivered)
          t.equal(delivered.deliveries[0]?.attempts, 1)
          t.same(receiptLines(delivered), [PROCESSED_LINE])
        }
      },
    )

    void t.test(`so does one that comes by itself ${form}: ${state}`, async (t) => {
      await inChangeOver(current, previous)
      await change({ receipt_mode: 'Async' })
      globex.onMessage = async (_, response) => void response.end()
      for (const named of [current, previous, unknown]) {
        const message = await send(nextName(), waits)
        const posted = await receiptBy(named, arrivedAs(message), isOpaque)
        t.equal((await post(wantedAt(arrivedAs(message)), posted)).status, 200)
        const delivered = await untilSo(message.id, isDelivered)
        t.same(receiptLines(delivered), [PROCESSED_LINE])
      }
    })
  }
}

function arrivedAs(message: Message): Incoming {
  const arrived = globex.messages.find(({ messageId }) => messageId === message.protocols.as2?.message_id)
  if (arrived === undefined) throw new Error(`${message.file_name} did not arrive`)
  return arrived
}

const REFUSED = {
  'no certificate of the key is valid': [early, expired],
  'the valid one is of another key': [ofAnotherKey, expired],
} as const

for (const [state, [current, previous]] of Object.entries(REFUSED)) {
  void t.test(`a receipt that comes by itself is refused where ${state}`, async (t) => {
    await inChangeOver(current, previous)
    await change({ receipt_mode: 'Async' })
    globex.onMessage = async (_, response) => void response.end()
    const message = await send(nextName(), waits)
    const answer = await post(wantedAt(arrivedAs(message)), await receiptBy(expired, arrivedAs(message)))
    t.equal(answer.status, 400)
    const waiting = await present(message)
    t.equal(waiting.status, 'AwaitingReceipt')
    t.match(receiptLines(waiting), [/^mdn_refused: .*certificate expired \(id \d+\) expired on 20/])
  })

  void t.test(`neither does one that answers the message count where ${state}`, async (t) => {
    await inChangeOver(current, previous)
    await change({ receipt_mode: 'Sync' })
    answerWith((message) => receiptBy(expired, message))
    const retrying = await send(nextName(), ({ status }) => status === 'Retrying')
    t.match(retrying.deliveries[0]?.last_error, /certificate expired \(id \d+\) expired on 20/)
    // The partner's next receipt counts.
    await inChangeOver(valid, expired)
    await untilSo(retrying.id, isDelivered)
  })
}
