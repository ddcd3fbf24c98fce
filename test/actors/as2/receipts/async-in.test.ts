import t from 'tap'
import type { Disposition } from '../../../../actors/as2/protocol/disposition.ts'
import { micOf } from '../../../../actors/as2/protocol/mic.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import type { ComposedReceipt, OutgoingReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { post, receiptOf, wantedAt } from '../../../support/async-partner.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { allMessages } from '../../../support/exchanged-messages.ts'
import { formatEntity } from '../../../../actors/as2/protocol/mime.ts'
import { formatMultipartSigned } from '../../../../actors/as2/protocol/multipart-signed.ts'
import { receiptWithin } from '../protocol/opaque-signed.ts'
import { hasFailed, isDelivered, receiptLines, startSite, waits, type Message } from './async-site.ts'

t.setTimeout(300_000)

const { waybill, loop, globex, change, send, untilSo } = await startSite(t)
const PROCESSED_LINE = 'mdn_received: automatic-action/MDN-sent-automatically; processed'
const NEGATIVE: Disposition = { type: 'processed', modifier: { kind: 'error', text: 'decryption-failed' } }

/** Sends a file that the partner takes without a receipt. */
async function sent(name: string) {
  const message = await send(name, waits)
  const arrived = globex.messages.find(({ messageId }) => messageId === message.protocols.as2?.message_id)
  if (arrived === undefined) throw new Error(`${name} did not arrive`)
  return { message, arrived }
}

const present = ({ id }: Message) => waybill.request<Message>('GET', `/messages/${id}`)

void t.test(
  'a message that asks for an asynchronous receipt waits for it, and says where it goes',
  async (t) => {
    const { message, arrived } = await sent('waits.edi')
    t.equal(wantedAt(arrived), loop.receiverUrl)
    t.match(message, {
      status: 'AwaitingReceipt',
      deliveries: [{ state: 'awaiting_ack', attempts: 1 }],
      protocols: { as2: { receipt: { mode: 'Async', state: 'pending', at: null } } },
    })
    const answer = await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))
    t.equal(answer.status, 200)
    t.equal(answer.body.length, 0)
    const delivered = await present(message)
    t.match(delivered, {
      status: 'Delivered',
      deliveries: [{ state: 'delivered', last_error: null }],
      protocols: {
        as2: { receipt: { state: 'received', mic_matches: true, message_id: '<receipt@globex>' } },
      },
    })
    t.same(receiptLines(delivered), [PROCESSED_LINE])
    const stage = await fetch(`${waybill.url}/api/v1/messages/${message.id}/payload?stage=receipt`)
    t.match(await stage.text(), /^as2-from: "GLOBEX AS2"\r$/im)
  },
)

void t.test('a negative receipt fails the delivery with its reason', async (t) => {
  const { message, arrived } = await sent('negative.edi')
  await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys, { disposition: NEGATIVE }))
  const failed = await present(message)
  t.match(failed, { status: 'Error', protocols: { as2: { receipt: { state: 'refused' } } } })
  t.match(failed.deliveries[0]?.last_error, /decryption-failed/)
  t.match(receiptLines(failed), [/^mdn_refused: .*decryption-failed/])
})

void t.test('a receipt with another MIC fails the delivery', async (t) => {
  const { message, arrived } = await sent('mic.edi')
  const mic = { algorithm: 'SHA256', value: Buffer.alloc(32).toString('base64') } as const
  await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys, { mic }))
  t.match(await present(message), {
    status: 'Error',
    protocols: { as2: { receipt: { state: 'refused', mic_matches: false } } },
  })
})

const stranger = makeCertificate({ commonName: 'Globex Waterworks' })
const FORGERIES: Readonly<Record<string, Partial<OutgoingReceipt>>> = {
  'signed by a stranger': {
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...stranger },
  },
  'negative and signed by a stranger': {
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...stranger },
    disposition: NEGATIVE,
  },
  unsigned: { signature: null },
  'unsigned and negative': { signature: null, disposition: NEGATIVE },
  'of another pair': { as2From: 'HOOLI' },
  'to another organization': { as2To: 'HOOLI' },
}

void t.test(
  'a forged receipt marks nothing, gets one and the same refusal, and is told a few times',
  async (t) => {
    const { message, arrived } = await sent('forged.edi')
    const answers = new Set<string>()
    for (const [name, changes] of Object.entries(FORGERIES)) {
      const answer = await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys, changes))
      t.equal(answer.status, 400, name)
      answers.add(answer.body.toString())
      t.match(
        await present(message),
        { status: 'AwaitingReceipt', deliveries: [{ state: 'awaiting_ack' }] },
        name,
      )
    }
    for (const originalMessageId of ['<nobody@nowhere>', null]) {
      const unknown = await receiptOf(arrived, loop.globex.keys, { originalMessageId })
      const answer = await post(wantedAt(arrived), unknown)
      t.equal(answer.status, 400)
      answers.add(answer.body.toString())
    }
    t.equal(answers.size, 1, 'nothing tells what a forgery lacks, or which messages there are')
    const lines = receiptLines(await present(message))
    t.equal(lines.length, 5, 'the lines about forgeries are bounded')
    t.ok(lines.every((line) => line.startsWith('mdn_refused: A receipt was refused and changes nothing: ')))
    t.match(await present(message), { protocols: { as2: { receipt: { state: 'pending' } } } })
    t.equal((await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))).status, 200)
    t.equal((await present(message)).status, 'Delivered', 'the genuine one counts all the same')
  },
)

void t.test('what was signed for one message does not count for another', async (t) => {
  const first = await sent('first.edi')
  const second = await sent('second.edi')
  const signed = await receiptOf(first.arrived, loop.globex.keys)
  const body = Buffer.from(
    signed.body
      .toString('latin1')
      .replace(first.arrived.messageId ?? '', () => second.arrived.messageId ?? ''),
    'latin1',
  )
  t.equal((await post(wantedAt(first.arrived), { ...signed, body })).status, 400)
  t.equal((await present(second.message)).status, 'AwaitingReceipt')
  t.equal((await present(first.message)).status, 'AwaitingReceipt')
})

void t.test('a receipt that comes again changes nothing, and is told a few times', async (t) => {
  const { message, arrived } = await sent('again.edi')
  const receipt = await receiptOf(arrived, loop.globex.keys)
  await post(wantedAt(arrived), receipt)
  const before = await present(message)
  const contrary = await receiptOf(arrived, loop.globex.keys, {
    disposition: NEGATIVE,
    messageId: '<no@globex>',
  })
  for (let time = 0; time < 12; time += 1)
    t.equal((await post(wantedAt(arrived), time === 0 ? contrary : receipt)).status, 200)
  const after = await present(message)
  t.same({ ...after, history: [] }, { ...before, history: [] })
  const lines = receiptLines(after)
  t.equal(lines.length, 11)
  t.match(lines[1], /^mdn_refused: .*decryption-failed \(the message had its receipt before\)$/)
  t.equal(lines[2], `${PROCESSED_LINE} (the message had its receipt before)`)
})

void t.test('brackets of the Message-ID do not count', async (t) => {
  const { message, arrived } = await sent('brackets.edi')
  const originalMessageId = (arrived.messageId ?? '').slice(1, -1)
  await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys, { originalMessageId }))
  t.equal((await present(message)).status, 'Delivered')
})

void t.test('a synchronous receipt counts, though one by itself was asked for', async (t) => {
  globex.onMessage = async (message, response) => {
    const { headers, body } = await receiptOf(message, loop.globex.keys)
    response.writeHead(200, headers.flat()).end(body)
  }
  const message = await send('synchronous.edi', isDelivered)
  t.match(message.protocols.as2?.receipt, { mode: 'Async', state: 'received', mic_matches: true })
  globex.onMessage = async (each, response) => {
    const { headers, body } = await receiptOf(each, loop.globex.keys, { disposition: NEGATIVE })
    response.writeHead(400, headers.flat()).end(body)
  }
  t.match(await send('synchronous no.edi', hasFailed), {
    protocols: { as2: { receipt: { state: 'refused' } } },
  })
  globex.onMessage = async (_, response) => void response.end()
})

void t.test('an answer other than 2xx is retried, and without a receiver a message cannot go', async (t) => {
  globex.onMessage = async (_, response) => void response.writeHead(503).end()
  const message = await send('refused.edi', ({ status }) => status === 'Retrying')
  t.match(message.deliveries[0]?.last_error, /HTTP status 503/)
  globex.onMessage = async (_, response) => void response.writeHead(202).end()
  await untilSo(message.id, waits)
  globex.onMessage = async (_, response) => void response.end()
  const enable = (enabled: boolean) =>
    waybill.request('PUT', '/plugins/configs/as2-receiver/receiver', { enabled })
  await enable(false)
  const failed = await send('nowhere.edi', hasFailed)
  t.match(failed.deliveries[0]?.last_error, /no enabled AS2 receiver could take them in/)
  await enable(true)
  await waybill.request('POST', '/services/as2-receiver/receiver/start')
})

void t.test('a receipt within its signature counts, and one of a stranger does not', async (t) => {
  const { message, arrived } = await sent('opaque.edi')
  const made = await receiptOf(arrived, loop.globex.keys, { signature: null })
  t.equal((await post(wantedAt(arrived), receiptWithin(made, stranger))).status, 400)
  t.match(await present(message), { status: 'AwaitingReceipt' })
  t.equal((await post(wantedAt(arrived), receiptWithin(made, loop.globex.keys))).status, 200)
  t.match(await present(message), {
    status: 'Delivered',
    protocols: { as2: { receipt: { state: 'received', mic_matches: true } } },
  })
})

/** A signed receipt that gives the message back, of so many bytes. */
async function givingBack(arrived: Incoming, bytes: number): Promise<ComposedReceipt> {
  const { headers, body } = await receiptOf(arrived, loop.globex.keys, { signature: null })
  const end = body.lastIndexOf('--\r\n')
  const boundary = body.subarray(body.lastIndexOf('\r\n--') + 4, end).toString()
  const back = `\r\nContent-Type: message/rfc822\r\n\r\nSubject: what was sent\r\n\r\n${'x'.repeat(bytes)}`
  const report = Buffer.concat([body.subarray(0, end), Buffer.from(`${back}\r\n--${boundary}--\r\n`)])
  const isOfContent = ([name]: readonly [string, string]): boolean => name === 'Content-Type'
  const part = formatEntity(headers.filter(isOfContent), report)
  const { algorithm, scheme, certificate, privateKey } = {
    algorithm: 'SHA256',
    scheme: 'PKCS1',
    ...loop.globex.keys,
  } as const
  const signed = await formatMultipartSigned(part, {
    signing: { algorithm, scheme, certificate, privateKey },
    signingTime: new Date(),
  })
  const others = headers.filter((field) => !isOfContent(field))
  return { headers: [...others, ...signed.headers], body: signed.body }
}

void t.test('a receipt may give the message back, and one over 1 MiB is told as too large', async (t) => {
  const { message, arrived } = await sent('back.edi')
  const tooLarge = await givingBack(arrived, 1024 * 1024)
  const answer = await post(wantedAt(arrived), tooLarge)
  t.equal(answer.status, 413)
  t.equal(answer.body.toString(), 'The receipt is larger than 1048576 bytes.\n')
  const waiting = await present(message)
  t.match(waiting, { status: 'AwaitingReceipt', protocols: { as2: { receipt: { state: 'pending' } } } })
  const line = 'mdn_refused: A receipt was refused and changes nothing: it is larger than 1048576 bytes'
  t.same(receiptLines(waiting), [line])
  const inbound = (await allMessages(waybill)).filter(({ direction }) => direction === 'inbound')
  t.same(inbound, [], 'it is no message')
  for (const bytes of [300_000, 1_000_000]) {
    t.equal((await post(wantedAt(arrived), await givingBack(arrived, bytes))).status, 200)
    t.equal((await present(message)).status, 'Delivered', `${bytes}`)
  }
})

void t.test('a signed receipt counts as an unsigned one where there is no certificate for it', async (t) => {
  await change({ receipt_signed: false, encryption_algorithm: 'None', partner_certificate_id: null })
  const { message, arrived } = await sent('no certificate.edi')
  t.equal((await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))).status, 200)
  const delivered = await present(message)
  t.match(delivered, { status: 'Delivered', protocols: { as2: { receipt: { signed: false } } } })
  t.match(receiptLines(delivered), [/; processed \(read as unsigned: the profile has no certificate/])
  const certificate = { partner_certificate_id: loop.globex.certificate }
  await change({ ...certificate, receipt_signed: true, encryption_algorithm: 'AES256-CBC' })
})

void t.test('a right MIC in any SHA counts where the message asked unsigned for SHA-256', async (t) => {
  const unsigned = { signing_algorithm: 'None', encryption_algorithm: 'None', receipt_signed: false }
  const signed = { signing_algorithm: 'SHA256', encryption_algorithm: 'AES256-CBC', receipt_signed: true }
  await change({ ...unsigned, compression: 'None' })
  for (const [algorithm, content, status] of [
    ['SHA1', null, 'Delivered'],
    ['SHA384', null, 'Delivered'],
    ['SHA512', null, 'Delivered'],
    ['SHA1', 'other', 'Error'],
  ] as const) {
    const { message, arrived } = await sent(`unsigned, ${algorithm}, ${status}.edi`)
    t.same(arrived.receiptRequest?.micAlgorithms, ['SHA256'])
    const mic = micOf(algorithm, content === null ? arrived.content : Buffer.from(content))
    const receipt = await receiptOf(arrived, loop.globex.keys, { signature: null, mic })
    t.equal((await post(wantedAt(arrived), receipt)).status, 200)
    t.equal((await present(message)).status, status)
  }
  await change({ ...signed, compression: 'BeforeSigning' })
})
