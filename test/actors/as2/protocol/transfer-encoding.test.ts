import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Base64Encoder } from '../../../../actors/as2/protocol/base64.ts'
import { composeMessage, type Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import { makeCertificate } from '../../../support/certificates.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })
const { certificate, privateKey } = sender
const signature = { algorithm: 'SHA256', scheme: 'PKCS1', certificate, privateKey } as const
const encryption = {
  algorithm: 'AES256-CBC',
  keyTransport: 'PKCS1',
  certificate: receiver.certificate,
} as const

const MESSAGE: Outgoing = {
  as2From: 'Sender',
  as2To: 'Receiver',
  messageId: '<1@sender>',
  subject: null,
  date: new Date('2026-11-21T08:00:00Z'),
  fileName: null,
  contentType: 'application/edifact',
  content: Buffer.from("UNB+UNOC:3+SENDER+RECEIVER'".repeat(20)),
  compression: 'None',
  signature: null,
  encryption: null,
  receipt: { signed: true, asyncUrl: null },
  product: 'Waybill/0.1.0',
  transferEncoding: 'base64',
}

/** Lines of 76 characters, written down here apart from the code under test. */
function inLines(content: Buffer): string {
  return content.toString('base64').replace(/(.{76})(?=.)/g, '$1\r\n')
}

const digestOf = (text: string | Buffer): string => createHash('sha256').update(text).digest('base64')
const encoding = (headers: HeaderList): string | undefined =>
  new Map(headers).get('Content-Transfer-Encoding')

t.test('The encoder gives lines of 76 characters, however the bytes come', (t) => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), (parts) => {
      const encoder = new Base64Encoder()
      const encoded = [...parts.map((part) => encoder.update(Buffer.from(part))), encoder.final()]
      return Buffer.concat(encoded).toString('latin1') === inLines(Buffer.concat(parts))
    }),
  )
  t.end()
})

t.test('Plain: the body is encoded, and the MIC is over it as it stands', async (t) => {
  const message = await composeMessage(MESSAGE)
  t.equal(encoding(message.headers), 'base64')
  t.equal(message.body.toString('latin1'), inLines(MESSAGE.content))
  t.equal(message.mic.value, digestOf(message.body))
  t.equal(message.alternativeMic?.value, digestOf(MESSAGE.content), 'what others hash')
})

t.test('Signed: the part is encoded as it is signed', async (t) => {
  const { body, mic } = await composeMessage({ ...MESSAGE, signature })
  const part = [
    'Content-Type: application/edifact',
    'Content-Transfer-Encoding: base64',
    '',
    inLines(MESSAGE.content),
  ].join('\r\n')
  t.ok(body.includes(`\r\n${part}\r\n--`))
  t.equal(mic.value, digestOf(part))
})

t.test('Encrypted or compressed: the S/MIME body is encoded, too', async (t) => {
  for (const changes of [
    { encryption },
    { compression: 'AfterSigning' },
    { signature, encryption },
  ] as const) {
    const message = await composeMessage({ ...MESSAGE, ...changes })
    t.equal(encoding(message.headers), 'base64')
    t.equal(message.body.toString('latin1'), inLines(Buffer.from(message.body.toString('latin1'), 'base64')))
  }
})

t.test('A multipart is never encoded as a whole (RFC 2045 §6.4)', async (t) => {
  const content = Buffer.from('--x\r\n\r\na\r\n--x--\r\n')
  const message = await composeMessage({ ...MESSAGE, contentType: 'multipart/mixed; boundary="x"', content })
  t.equal(encoding(message.headers), 'binary')
  t.same(message.body, content)
})

t.test('All of it arrives, with the MIC that the sender expects', async (t) => {
  for (const compression of ['None', 'BeforeSigning', 'AfterSigning'] as const) {
    for (const sign of [null, signature]) {
      for (const encrypt of [null, encryption]) {
        const message = await composeMessage({
          ...MESSAGE,
          compression,
          signature: sign,
          encryption: encrypt,
        })
        const incoming = await readMessage({
          headers: message.headers,
          body: message.body,
          decryption: [receiver],
          signers: [sender.certificate],
          maxContentBytes: 1_000_000,
        })
        const row = `${compression}${sign === null ? '' : ', signed'}${encrypt === null ? '' : ', encrypted'}`
        t.same(incoming.content, MESSAGE.content, row)
        t.ok(micEquals(incoming.mic, message.mic), row)
      }
    }
  }
})
