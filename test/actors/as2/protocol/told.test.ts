import { createCipheriv, randomBytes } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import { integer, octetString, sequence } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import type { Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import type { Encryption } from '../../../../actors/as2/protocol/cms/encryption-keys.ts'
import { micOf } from '../../../../actors/as2/protocol/mic.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import {
  attributesOf,
  encryptedKey,
  envelopedData,
  OID,
  recipientInfo,
  signedData,
  signedDataWith,
  signerInfo,
} from './crafted-cms.ts'
import { assertSame } from './stream/both-readers.ts'
import type { Outcome } from './stream/both-readers.ts'

/** What is told of an encrypted message whose signature is not the partner's: only what no altered ciphertext shows. */

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })
const strangers = {
  RSA: makeCertificate({ commonName: 'Stranger' }),
  EC: makeCertificate({ commonName: 'Stranger', keyType: 'ec' }),
}
const weak = makeCertificate({ commonName: 'Stranger', keyBits: 512 })
const signature = { algorithm: 'SHA256', scheme: 'PKCS1', ...strangers.RSA } as const
const encryption: Encryption = {
  algorithm: 'AES256-CBC',
  keyTransport: 'PKCS1',
  certificate: receiver.certificate,
}
const HEADERS: HeaderList = [
  ['AS2-From', 'sender'],
  ['AS2-To', 'receiver'],
  ['Content-Type', 'application/pkcs7-mime'],
]
const TEXT = Buffer.from("UNB+UNOA:1'\r\nFTX+AAI+++größer'\r\n".repeat(50))

const MESSAGE: Outgoing = {
  as2From: 'sender',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: null,
  date: new Date('2026-11-21T08:00:00Z'),
  fileName: 'a.edi',
  contentType: 'application/edifact',
  content: TEXT,
  compression: 'None',
  signature,
  encryption,
  receipt: null,
  product: 'Sender/1',
}

/** By both readers alike. */
function read(headers: HeaderList, body: Buffer, signers: readonly Buffer[] = [sender.certificate]) {
  const require = { signed: true, encrypted: false }
  return assertSame(
    { headers, body, decryption: [receiver], signers, maxContentBytes: 1_000_000, require },
    [997],
  )
}

async function sent(changes: Partial<Outgoing>, signers?: readonly Buffer[]): Promise<Outcome> {
  const { headers, body } = await composeMessage({ ...MESSAGE, ...changes })
  return read(headers, body, signers)
}

/** An entity in AES-256-CBC, with blocks of the ciphertext altered. */
function sealed(plain: Buffer, alter: (ciphertext: Buffer, iv: Buffer) => Buffer = (bytes) => bytes): Buffer {
  const [key, iv] = [randomBytes(32), randomBytes(16)]
  const cipher = createCipheriv('aes-256-cbc', key, iv)
  const ciphertext = alter(Buffer.concat([cipher.update(plain), cipher.final()]), iv)
  const recipient = recipientInfo(receiver, encryptedKey(receiver, key))
  return envelopedData(recipient, { oid: OID.aes256Cbc, parameters: octetString(iv), ciphertext })
}

/** An entity in AES-256-GCM, its tag behind it. */
function authenticated(plain: Buffer): Buffer {
  const [key, nonce] = [randomBytes(32), randomBytes(12)]
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
  const recipient = recipientInfo(receiver, encryptedKey(receiver, key))
  const parameters = sequence(octetString(nonce), integer(16))
  return envelopedData(recipient, { oid: OID.aes256Gcm, parameters, ciphertext })
}

const NOT_TOLD = { content: null, modifier: 'decryption-failed', mic: null }

t.test(
  'A sound signature of somebody else is told as it is outside of encryption, with the MIC',
  async (t) => {
    for (const [kind, stranger] of Object.entries(strangers)) {
      for (const compression of ['None', 'BeforeSigning', 'AfterSigning'] as const) {
        const signed = { compression, signature: { ...signature, ...stranger } }
        const { mic } = await composeMessage({ ...MESSAGE, ...signed })
        const outside = await sent({ ...signed, encryption: null })
        t.match(outside, { modifier: 'authentication-failed', reason: /not of any certificate/, mic })
        t.same(await sent(signed), outside, `${kind}, ${compression}`)
        t.match(
          await sent(signed, []),
          { modifier: 'authentication-failed', mic },
          'nor where no other is known',
        )
      }
    }
    const { certificate, privateKey } = strangers.RSA
    const renewed = makeCertificate({ commonName: 'Sender', key: sender })
    const signed = {
      signature: { ...signature, certificate: renewed.certificate, privateKey: sender.privateKey },
    }
    t.match(await sent(signed), { content: TEXT, signed: true }, 'the key decides, not the certificate')
    const pretended = { signature: { ...signature, certificate: sender.certificate, privateKey } }
    t.match(await sent(pretended), NOT_TOLD, 'a signature by another key than that of its certificate')
    t.match(await sent({ signature: { ...signature, certificate, privateKey: sender.privateKey } }), {
      content: TEXT,
    })
  },
)

t.test('So is a stranger’s signature over other line ends, and an opaque one', async (t) => {
  const part = Buffer.from('Content-Type: text/plain\r\n\r\none\r\ntwo\r\n')
  const info = signerInfo(strangers.RSA, attributesOf(part))
  const pkcs7 = signedDataWith([strangers.EC.certificate, strangers.RSA.certificate], null, info)
  const multipart = (received: Buffer, der: Buffer): Buffer =>
    Buffer.concat([
      Buffer.from('Content-Type: multipart/signed; micalg=sha-256; boundary=b\r\n\r\n--b\r\n'),
      received,
      Buffer.from('\r\n--b\r\nContent-Type: application/pkcs7-signature\r\n\r\n'),
      der,
      Buffer.from('\r\n--b--\r\n'),
    ])
  const lf = Buffer.from(part.toString().replaceAll('\r\n', '\n'))
  const told = { modifier: 'authentication-failed', mic: micOf('SHA256', lf) }
  t.match(await read(HEADERS, sealed(multipart(lf, pkcs7))), told)
  const other = Buffer.from('Content-Type: text/plain\r\n\r\nthree\r\n')
  t.match(await read(HEADERS, sealed(multipart(other, pkcs7))), NOT_TOLD, 'but none over other content')
  const bare = signedData(null, info)
  t.match(
    await read(HEADERS, sealed(multipart(part, bare))),
    NOT_TOLD,
    'nor one whose certificate is missing',
  )
  const opaque = (der: Buffer): Buffer =>
    Buffer.concat([Buffer.from('Content-Type: application/pkcs7-mime\r\n\r\n'), der])
  const withContent = signedDataWith([strangers.RSA.certificate], part, info)
  t.match(await read(HEADERS, sealed(opaque(withContent))), { modifier: 'authentication-failed' })
  const wrong = signedDataWith([strangers.RSA.certificate], other, info)
  t.match(await read(HEADERS, sealed(opaque(wrong))), NOT_TOLD)
  const weakly = signedDataWith([weak.certificate], part, signerInfo(weak, attributesOf(part)))
  t.match(await read(HEADERS, sealed(opaque(weakly))), NOT_TOLD, 'a key that counts for nothing')
  const rubbish = signedDataWith([Buffer.from('30030201ff', 'hex'), randomBytes(40)], part, info)
  t.match(await read(HEADERS, sealed(opaque(rubbish))), NOT_TOLD, 'certificates that are none')
})

const UNSIGNED = { signature: null } as const
const MISSING = { content: null, modifier: 'insufficient-message-security', reason: /not signed/, mic: null }

t.test('That a signature is missing is told of text, and of any content that is authenticated', async (t) => {
  const binary = { content: Buffer.from([0, 1, 2]) }
  const algorithms = ['AES128-CBC', 'AES192-CBC', 'AES256-CBC'] as const
  for (const algorithm of algorithms) {
    for (const compression of ['None', 'AfterSigning'] as const) {
      const how = { ...UNSIGNED, compression, encryption: { ...encryption, algorithm } }
      t.match(await sent(how), MISSING, `text in ${algorithm}, ${compression}`)
      t.match(await sent({ ...how, ...binary }), NOT_TOLD, `anything else in ${algorithm}, ${compression}`)
    }
  }
  for (const algorithm of ['AES128-GCM', 'AES192-GCM', 'AES256-GCM'] as const) {
    const how = { ...UNSIGNED, encryption: { ...encryption, algorithm } }
    t.match(await sent({ ...how, ...binary }), MISSING, `anything in ${algorithm}`)
  }
  for (const plain of [randomBytes(500), Buffer.from('UNA\r\n\r\n')])
    t.match(await read(HEADERS, authenticated(plain)), NOT_TOLD, 'but not of what is no message at all')
  const tripleDes = { ...UNSIGNED, encryption: { ...encryption, algorithm: '3DES' } } as const
  t.match(await sent(tripleDes), NOT_TOLD, 'the blocks of 3DES are too short to be text by no chance')
})

t.test('Of a ciphertext that somebody altered nothing is told', async (t) => {
  const entity = (head: string, body: Buffer = TEXT): Buffer => Buffer.concat([Buffer.from(head), body])
  const plain = entity('Content-Type: application/edifact\r\nContent-Transfer-Encoding: binary\r\n\r\n')
  t.match(await read(HEADERS, sealed(plain)), MISSING, 'what is not altered is told')
  const swapped = sealed(plain, (bytes) => {
    const [one, two] = [Buffer.from(bytes.subarray(160, 176)), Buffer.from(bytes.subarray(320, 336))]
    two.copy(bytes, 160)
    one.copy(bytes, 320)
    return bytes
  })
  t.match(await read(HEADERS, swapped), NOT_TOLD, 'blocks in another order')
  const appended = sealed(plain, (bytes) => Buffer.concat([bytes, randomBytes(16), bytes.subarray(-32)]))
  t.match(await read(HEADERS, appended), NOT_TOLD, 'blocks that are appended')
  await isNeverTold(t, plain)
  for (const [name, head] of Object.entries({
    'a header that a block holds': 'Content-Type:a/b\n\n',
    'a type that nobody knows': 'Content-Type: some/thing\r\n\r\n',
    'no type': 'Content-Type: \r\n\r\n',
    'another header': 'Content-Transfer-Encoding: binary\r\n\r\n',
    'no header': 'UNA\r\n\r\n',
  })) {
    t.match(await read(HEADERS, sealed(entity(head))), NOT_TOLD, name)
  }
  t.match(
    await read(HEADERS, sealed(Buffer.from('Content-Type: application/edifact\r\nX: y'))),
    NOT_TOLD,
    'a header without an end',
  )
  for (const [name, bytes] of Object.entries({
    'a control character': [0x1b],
    'a zero': [0],
    'half a character': [0xc3],
    'the second half of one': [0x41, 0xa9],
    'what no character begins with': [0xff],
  })) {
    const ended = Buffer.concat([plain, Buffer.from(bytes)])
    t.match(await read(HEADERS, sealed(ended)), NOT_TOLD, name)
  }
})

/** The first block may be made anything: a message that begins with a block of another is not a header for that. */
async function isNeverTold(t: Test, plain: Buffer): Promise<void> {
  const from = 10 * 16
  const wanted = Buffer.from('Content-Type:a/b')
  const moved = sealed(plain, (bytes, iv) => {
    for (let at = 0; at < 16; at++)
      iv[at] = (bytes[from - 16 + at] ?? 0) ^ (plain[from + at] ?? 0) ^ (wanted[at] ?? 0)
    return bytes.subarray(from)
  })
  t.match(await read(HEADERS, moved), NOT_TOLD, 'the end of a message under a header that was made')
}
