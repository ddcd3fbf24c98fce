import { inflateSync } from 'node:zlib'
import t from 'tap'
import { BerReader } from '../../actors/as2/protocol/asn1/reader.ts'
import { composeMessage } from '../../actors/as2/protocol/compose.ts'
import type { Compression } from '../../actors/as2/protocol/outgoing.ts'
import { micEquals, micOf } from '../../actors/as2/protocol/mic.ts'
import { composeReceipt } from '../../actors/as2/protocol/receipt.ts'
import { makeCertificate } from '../support/certificates.ts'
import { bodyOf, CONTENT, ENTITY, Openssl, PLAIN, readFrom, withoutHeaders } from './openssl.ts'

/** Whole messages and receipts between us and `openssl cms`: signed, compressed and encrypted at once. */

t.setTimeout(120_000)

const CERTIFICATES = {
  sender: makeCertificate({ commonName: 'Sender' }),
  receiver: makeCertificate({ commonName: 'Receiver' }),
  senderOnCurve: makeCertificate({ commonName: 'Sender', keyType: 'ec' }),
  receiverOnCurve: makeCertificate({ commonName: 'Receiver', keyType: 'ec', curve: 'P-384' }),
} as const

type Name = keyof typeof CERTIFICATES

const PAIRS = [
  { from: 'sender', to: 'receiver' },
  { from: 'senderOnCurve', to: 'receiverOnCurve' },
  { from: 'sender', to: 'receiverOnCurve' },
] as const satisfies { from: Name; to: Name }[]

const CIPHERS = { 'AES256-CBC': '-aes-256-cbc', 'AES256-GCM': '-aes-256-gcm' } as const
const ALGORITHMS = ['AES256-CBC', 'AES256-GCM'] as const

const openssl = await Openssl.start(t, CERTIFICATES)

function signatureOf(name: Name) {
  const { certificate, privateKey } = CERTIFICATES[name]
  return { algorithm: 'SHA256', scheme: 'PKCS1', certificate, privateKey } as const
}

/** Debian builds openssl without zlib, so that openssl parses the structure and zlib opens it. */
async function expanded(compressed: Buffer): Promise<Buffer> {
  const printed = (await openssl.cms(compressed, '-cmsout', '-print', '-inform', 'DER')).toString()
  if (!/id-smime-ct-compressedData/.test(printed) || !/zlib compression/.test(printed)) return Buffer.alloc(0)
  const data = new BerReader(compressed).next().children()
  data.next()
  const fields = data.next().children().next().children()
  fields.next()
  fields.next()
  const encapsulated = fields.next().children()
  encapsulated.next()
  return inflateSync(encapsulated.next().children().next().octets())
}

t.test('openssl decrypts and verifies what we sign and encrypt, compressed or not', async (t) => {
  for (const { from, to } of PAIRS) {
    for (const algorithm of ALGORITHMS) {
      for (const compression of ['None', 'BeforeSigning', 'AfterSigning'] satisfies Compression[]) {
        const { certificate } = CERTIFICATES[to]
        const { body } = await composeMessage({
          ...PLAIN,
          compression,
          signature: signatureOf(from),
          encryption: { algorithm, keyTransport: 'OAEP', certificate },
        })
        const decrypted = await openssl.decrypt(body, to)
        const signed = compression === 'AfterSigning' ? await expanded(bodyOf(decrypted)) : decrypted
        const part = await openssl.verify(signed, from)
        const entity = compression === 'BeforeSigning' ? await expanded(bodyOf(part)) : part
        t.same(bodyOf(entity), CONTENT, `${from} to ${to}, ${algorithm}, compression ${compression}`)
      }
    }
  }
})

t.test('We take what openssl signs and then encrypts, in DER and in base64', async (t) => {
  for (const { from, to } of PAIRS) {
    for (const algorithm of ALGORITHMS) {
      for (const form of ['DER', 'SMIME']) {
        const signed = await openssl.cms(
          ENTITY,
          '-sign',
          '-binary',
          ...openssl.signer(from),
          '-outform',
          'SMIME',
        )
        const options = [CIPHERS[algorithm], '-outform', form, openssl.pem(to)]
        const file = await openssl.cms(signed, '-encrypt', '-binary', ...options)
        const received =
          form === 'DER' ? { contentType: 'application/pkcs7-mime', body: file } : withoutHeaders(file)
        const keys = { signers: [CERTIFICATES[from]], decryption: [CERTIFICATES[to]] }
        const incoming = await readFrom(received, keys)
        const row = `${from} to ${to}, ${algorithm}, ${form}`
        t.same(incoming.content, CONTENT, row)
        t.match(incoming, { encrypted: true, signed: true, algorithms: { encryption: algorithm } }, row)
        t.ok(micEquals(incoming.mic, micOf('SHA256', ENTITY)), row)
      }
    }
  }
})

t.test('openssl verifies our receipts', async (t) => {
  for (const name of ['sender', 'senderOnCurve'] as const) {
    const { headers, body } = await composeReceipt({
      as2From: 'receiver',
      as2To: 'sender',
      messageId: null,
      date: new Date(),
      originalMessageId: '<1@sender>',
      disposition: { type: 'processed', modifier: null },
      mic: micOf('SHA256', CONTENT),
      text: 'The message was received.',
      signature: signatureOf(name),
      product: 'Waybill/0.1.0',
    })
    const type = new Map(headers).get('Content-Type') ?? ''
    const entity = Buffer.concat([Buffer.from(`Content-Type: ${type}\r\n\r\n`), body])
    const report = await openssl.verify(entity, name)
    t.match(
      report.toString('latin1'),
      'Disposition: automatic-action/MDN-sent-automatically; processed',
      name,
    )
  }
})
