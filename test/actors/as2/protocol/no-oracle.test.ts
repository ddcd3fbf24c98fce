import { randomBytes } from 'node:crypto'
import t from 'tap'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import type { Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import type { Compression } from '../../../../actors/as2/protocol/outgoing.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming, ReceivedMessage } from '../../../../actors/as2/protocol/incoming.ts'
import { composeReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { dispositionOf, Refusal } from '../../../../actors/as2/protocol/refusal.ts'
import { readMessageStream } from '../../../../actors/as2/protocol/stream/read-message-stream.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import type { TestCertificate } from '../../../support/certificates.ts'
import { hostileEnvelope } from '../../../support/hostile-envelope.ts'
import type { EnvelopeFault } from '../../../support/hostile-envelope.ts'
import { attributesOf, signedData, signerInfo } from './crafted-cms.ts'
import { chunksOf } from './stream/both-readers.ts'

/** Whoever alters an encrypted message learns from no answer what it decrypts to. */

const PARTNERS = {
  RSA: makeCertificate({ commonName: 'Sender' }),
  EC: makeCertificate({ commonName: 'Sender', keyType: 'ec' }),
}
const receiver = makeCertificate({ commonName: 'Receiver' })
const ENTITY = Buffer.from('Content-Type: text/plain\r\n\r\nhello')

async function signedBy(signer: TestCertificate, changes: Partial<Outgoing> = {}): Promise<Buffer> {
  const { headers, body } = await composeMessage({
    as2From: 'sender',
    as2To: 'receiver',
    messageId: '<1@sender>',
    subject: null,
    date: new Date(),
    fileName: 'a.edi',
    contentType: 'application/edifact',
    content: Buffer.from("UNB+UNOA:1'\r\nUNZ+0+1'\r\n".repeat(100)),
    compression: 'None',
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...signer },
    encryption: null,
    receipt: null,
    product: 'Sender/1',
    ...changes,
  })
  return Buffer.concat([
    Buffer.from(`Content-Type: ${new Map(headers).get('Content-Type') ?? ''}\r\n\r\n`),
    body,
  ])
}

interface Hostile {
  readonly plain: Buffer
  readonly fault?: EnvelopeFault
  readonly signers: readonly TestCertificate[]
}

function messageOf({ plain, fault = null, signers }: Hostile): ReceivedMessage {
  return {
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime; smime-type=enveloped-data'],
    ],
    body: hostileEnvelope(plain, receiver.certificate, fault),
    decryption: [receiver],
    signers: signers.map(({ certificate }) => certificate),
    maxContentBytes: 1_000_000,
    require: { signed: true, encrypted: true },
  }
}

function read(hostile: Hostile): Promise<Incoming> {
  return readMessage(messageOf(hostile))
}

/** Reads it as it comes in; `readings` are the beginnings of its body. */
async function readStreamed(hostile: Hostile): Promise<{ outcome: unknown; readings: number }> {
  const { body, ...reception } = messageOf(hostile)
  let readings = 0
  const again = (): AsyncIterable<Buffer> => {
    readings += 1
    return chunksOf(body, [997])
  }
  const sink = async (content: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of content) void chunk
  }
  const outcome = await readMessageStream({ ...reception, body: again(), again, sink }).catch(
    (thrown: unknown) => thrown,
  )
  return { outcome, readings }
}

/** The receipt of a message that must be refused, without its boundary. */
async function receiptOf(hostile: Hostile): Promise<string> {
  return receiptFor(await read(hostile).catch((thrown: unknown) => thrown))
}

async function receiptFor(refusal: unknown): Promise<string> {
  if (!(refusal instanceof Refusal)) throw new Error('was not refused', { cause: refusal })
  const { headers, body } = await composeReceipt({
    as2From: 'receiver',
    as2To: 'sender',
    messageId: null,
    date: new Date('2026-11-21T08:00:00Z'),
    originalMessageId: '<1@sender>',
    disposition: dispositionOf(refusal.modifier),
    mic: refusal.mic,
    text: refusal.message,
    signature: null,
    product: 'Waybill/1',
  })
  return `${JSON.stringify(headers)}\n${body.toString()}`.replaceAll(/=_[0-9a-f]{32}/g, 'BOUNDARY')
}

t.test('Bad padding, key, MIME and signature give equal receipts, after equally many readings', async (t) => {
  for (const [kind, partner] of Object.entries(PARTNERS)) {
    const signers = [partner]
    for (const compression of ['None', 'BeforeSigning', 'AfterSigning'] satisfies Compression[]) {
      const good = await signedBy(partner, { compression })
      t.ok((await read({ plain: good, signers })).signed, `${kind}, ${compression}: what is good arrives`)
      t.match(await readStreamed({ plain: good, signers }), { outcome: { signed: true }, readings: 1 })
      const altered = Buffer.from(good)
      altered[300] = (altered[300] ?? 0) ^ 1
      const rows: Record<string, Hostile> = {
        'bad padding': { plain: good, fault: 'bad_padding', signers },
        'a wrong key': { plain: good, fault: 'wrong_key', signers },
        'a key of a wrong length': { plain: good, fault: 'wrong_key_length', signers },
        'no MIME': { plain: randomBytes(good.length), signers },
        little: { plain: Buffer.from('x'), signers },
        nothing: { plain: Buffer.alloc(0), signers },
        'MIME that is cut': { plain: good.subarray(0, -40), signers },
        'an altered content': { plain: altered, signers },
        'an altered content, and no digest announced that it is signed with': {
          plain: announcing('sha-512', altered),
          signers,
        },
        'an altered content, and no partner to verify it': { plain: altered, signers: [] },
        'no signature, over what is no text': {
          plain: await signedBy(partner, { compression, signature: null, content: randomBytes(100) }),
          signers,
        },
      }
      const receipts = new Map<string, string>()
      for (const [name, hostile] of Object.entries(rows)) receipts.set(name, await receiptOf(hostile))
      const expected = receipts.get('bad padding') ?? ''
      t.match(
        expected,
        'Disposition: automatic-action/MDN-sent-automatically; processed/error: decryption-failed',
      )
      t.notMatch(expected, 'Received-content-MIC')
      for (const [name, receipt] of receipts) t.equal(receipt, expected, `${kind}, ${compression}: ${name}`)
      for (const [name, hostile] of Object.entries(rows)) {
        const { outcome, readings } = await readStreamed(hostile)
        t.equal(await receiptFor(outcome), expected, `${kind}, ${compression}: ${name}, as a stream`)
        t.equal(readings, 2, `${kind}, ${compression}: ${name}, as a stream`)
      }
    }
  }
})

/** The same message that names another digest before its content than behind it. */
function announcing(micalg: string, plain: Buffer): Buffer {
  return Buffer.from(plain.toString('latin1').replace(/micalg=[^;]+;/, `micalg=${micalg};`), 'latin1')
}

t.test('Blocks that are put around what is signed are refused whatever they end in', async (t) => {
  const signers = [PARTNERS.RSA]
  const good = await signedBy(PARTNERS.RSA)
  const text = Buffer.concat([good, Buffer.from('This line follows the end.\r\n')])
  t.ok((await read({ plain: text, signers })).signed, 'a line of text may follow')
  const opaqueType = Buffer.from('Content-Type: application/pkcs7-mime; smime-type=signed-data\r\n\r\n')
  const opaque = Buffer.concat([
    opaqueType,
    signedData(ENTITY, signerInfo(PARTNERS.RSA, attributesOf(ENTITY))),
  ])
  t.ok((await read({ plain: opaque, signers })).signed, 'an opaque signature')
  t.ok(
    (await read({ plain: Buffer.concat([opaque, Buffer.from('\r\n')]), signers })).signed,
    'with a line end',
  )
  const blocks = Buffer.concat([Buffer.from([0x80]), randomBytes(31)])
  const inHeader = good.toString('latin1').replace('protocol=', `x="${'\u0080\u00ff'.repeat(8)}"; protocol=`)
  const preamble = good.toString('latin1').replace('\r\n\r\n--', `\r\n\r\n${'\u0080\u00ff'.repeat(8)}\r\n--`)
  const rows = {
    'behind the closing delimiter': Buffer.concat([good, blocks]),
    'in a parameter of the header': Buffer.from(inHeader, 'latin1'),
    'before the first part': Buffer.from(preamble, 'latin1'),
    'behind an opaque signature': Buffer.concat([opaque, blocks]),
    'behind one in base64': Buffer.concat([
      opaqueType,
      Buffer.from(opaque.subarray(opaqueType.length).toString('base64')),
      Buffer.from('===='),
      blocks,
    ]),
    'behind compressed content': Buffer.concat([
      await signedBy(PARTNERS.RSA, { compression: 'AfterSigning' }),
      blocks,
    ]),
  }
  for (const [name, plain] of Object.entries(rows)) {
    const receipt = await receiptOf({ plain, signers })
    t.match(receipt, 'decryption-failed', name)
    t.equal(receipt, await receiptOf({ plain, fault: 'bad_padding', signers }), name)
  }
})
