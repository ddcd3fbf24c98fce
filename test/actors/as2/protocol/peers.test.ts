import { createCipheriv } from 'node:crypto'
import t from 'tap'
import { integer, octetString, sequence } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../../../actors/as2/protocol/certificate.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { micEquals, micOf } from '../../../../actors/as2/protocol/mic.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import {
  attributesOf,
  compressedData,
  encryptedKey,
  envelopedData,
  OID,
  recipientInfo,
  signedData,
  signerInfo,
} from './crafted-cms.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })
function read(headers: HeaderList, body: Buffer, signers = [sender.certificate]): Promise<Incoming> {
  return readMessage({
    headers: [['AS2-From', 'a'], ['AS2-To', 'b'], ...headers],
    body,
    decryption: [receiver],
    signers,
    maxContentBytes: 1_000_000,
  })
}

const PAYLOAD = Buffer.from("UNA:+.? 'UNB+UNOA:1'".repeat(500))

/** Encrypts to the receiver, with the key and the initialisation vector that a test wants. */
function enveloped(oid: string, iv: Buffer, key: Buffer, ciphertext: Buffer): Buffer {
  const parameters = oid === OID.aes128Gcm ? sequence(octetString(iv), integer(16)) : octetString(iv)
  return envelopedData(recipientInfo(receiver, encryptedKey(receiver, key)), { oid, parameters, ciphertext })
}

const ENCRYPTED_TYPE: HeaderList = [['Content-Type', 'Application/X-PKCS7-MIME']]

t.test(
  'BER of indefinite length with chunked content is decrypted, and a line feed after it ignored',
  async (t) => {
    const entity = Buffer.concat([Buffer.from('Content-Type: application/edifact; name=x.edi\n\n'), PAYLOAD])
    const [key, iv] = [Buffer.alloc(32, 1), Buffer.alloc(16, 2)]
    const cipher = createCipheriv('aes-256-cbc', key, iv)
    const ber = enveloped(OID.aes256Cbc, iv, key, Buffer.concat([cipher.update(entity), cipher.final()]))
    const incoming = await read(ENCRYPTED_TYPE, Buffer.concat([ber, Buffer.from('\n')]))
    t.same(incoming.content, PAYLOAD)
    t.match(incoming, { fileName: 'x.edi', encrypted: true })
    t.ok(micEquals(incoming.mic, micOf('SHA1', entity)))
    const base64 = Buffer.from(ber.toString('base64').replace(/(.{76})/g, '$1\r\n'))
    const transfer: HeaderList = [...ENCRYPTED_TYPE, ['Content-Transfer-Encoding', 'base64']]
    t.same((await read(transfer, base64)).content, PAYLOAD)
  },
)

t.test('A bare payload under encryption is taken as the content', async (t) => {
  const [key, iv] = [Buffer.alloc(24, '012345678'), Buffer.alloc(8, 2)]
  const cipher = createCipheriv('des-ede3-cbc', key, iv)
  const ber = enveloped(OID.tripleDes, iv, key, Buffer.concat([cipher.update(PAYLOAD), cipher.final()]))
  const incoming = await read(ENCRYPTED_TYPE, ber)
  t.same(incoming.content, PAYLOAD)
  t.match(incoming, { contentType: 'application/octet-stream', fileName: null })
  t.ok(micEquals(incoming.mic, micOf('SHA1', PAYLOAD)))
})

t.test('GCM inside EnvelopedData is decrypted, and refused when altered', async (t) => {
  const [key, iv] = [Buffer.alloc(16, 1), Buffer.alloc(12, 2)]
  const cipher = createCipheriv('aes-128-gcm', key, iv)
  const sealed = Buffer.concat([cipher.update(PAYLOAD), cipher.final(), cipher.getAuthTag()])
  t.same((await read(ENCRYPTED_TYPE, enveloped(OID.aes128Gcm, iv, key, sealed))).content, PAYLOAD)
  sealed[0] = (sealed[0] ?? 0) ^ 1
  await t.rejects(read(ENCRYPTED_TYPE, enveloped(OID.aes128Gcm, iv, key, sealed)), {
    name: 'Refusal',
    modifier: 'decryption-failed',
  })
})

t.test('A compressed message of a few bytes is read', async (t) => {
  const incoming = await read(ENCRYPTED_TYPE, compressedData(Buffer.from('Content-Type: a/b\r\n\r\nx')))
  t.match(incoming, { compressed: true, contentType: 'a/b' })
  t.equal(incoming.content.toString(), 'x')
})

/** A detached signature over some bytes. */
function detached(content: Buffer, signer = sender, oid: string = OID.rsa): Buffer {
  return signedData(null, signerInfo(signer, attributesOf(content), oid))
}

function multipart(part: Buffer, signature: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from('\r\n--=_x=y\r\n'),
    part,
    Buffer.from('\r\n--=_x=y\r\nContent-Type: application/x-pkcs7-signature\r\n\r\n'),
    signature,
    Buffer.from('\r\n--=_x=y--'),
  ])
}

const SIGNED_TYPE: HeaderList = [
  [
    'content-type',
    'multipart/signed;PROTOCOL="application/x-pkcs7-signature";micalg=sha256;boundary="=_x=y"',
  ],
]

t.test(
  'A binary signature without certificates is verified, whatever the line ends were when it was made',
  async (t) => {
    const received = Buffer.from('Content-Type: text/plain\n\nline 1\nline 2\n')
    const canonical = Buffer.from(received.toString().replaceAll('\n', '\r\n'))
    const half = Buffer.from('Content-Type: text/plain\r\n\r\nline 1\nline 2\n')
    for (const signed of [received, canonical, half]) {
      const incoming = await read(SIGNED_TYPE, multipart(received, detached(signed)))
      t.equal(incoming.content.toString(), 'line 1\nline 2\n')
      t.ok(micEquals(incoming.mic, micOf('SHA256', signed)), 'the MIC is over what was signed')
    }
    const other = Buffer.from('Content-Type: text/plain\n\nline 1\n')
    await t.rejects(read(SIGNED_TYPE, multipart(received, detached(other))), { name: 'Refusal' })
  },
)

t.test('The previous certificate of a partner, and one renewed with the same key, verify', async (t) => {
  const part = Buffer.from('Content-Type: text/plain\r\n\r\nx')
  const previous = makeCertificate({ commonName: 'Previous' })
  const body = multipart(part, detached(part))
  t.ok((await read(SIGNED_TYPE, body, [previous.certificate, sender.certificate])).signed)
  const renamed = multipart(part, detached(part, { ...sender, certificate: previous.certificate }))
  t.ok((await read(SIGNED_TYPE, renamed)).signed)
})

t.test('ECDSA signatures are verified', async (t) => {
  const elliptic = makeCertificate({ commonName: 'EC', keyType: 'ec' })
  const part = Buffer.from('Content-Type: text/plain\r\n\r\nx')
  const body = multipart(part, detached(part, elliptic, OID.ecdsaWithSha256))
  const incoming = await read(SIGNED_TYPE, body, [sender.certificate, elliptic.certificate])
  t.match(incoming.algorithms, { signature: 'SHA256', signatureScheme: 'ECDSA' })
})

t.test('A plain message may come in base64; its MIC is over the body as it came', async (t) => {
  const body = Buffer.from('aGVsbG8=\r\n')
  const incoming = await read(
    [
      ['Content-Type', 'text/plain; name="a b.txt"'],
      ['Content-Transfer-Encoding', 'base64'],
      ['Disposition-Notification-To', 'x'],
      ['Disposition-Notification-Options', 'signed-receipt-micalg=optional, whirlpool, sha512'],
    ],
    body,
  )
  t.equal(incoming.content.toString(), 'hello')
  t.equal(incoming.fileName, 'a b.txt')
  t.ok(micEquals(incoming.mic, micOf('SHA512', body)))
})

t.test('A message without Content-Type is plain', async (t) => {
  const incoming = await read([], Buffer.from('x'))
  t.match(incoming, { contentType: 'application/octet-stream', signed: false, messageId: null })
})

t.test('A certificate is read once, and known by the identifiers of its extension and of its key', (t) => {
  const certificate = prepareCertificate(receiver.certificate)
  t.equal(certificate.subjectKeyIdentifiers.length, 2)
  t.equal(prepareCertificate(receiver.certificate), certificate)
  t.throws(() => prepareCertificate(Buffer.from('no certificate')), { name: 'CertificateError' })
  t.end()
})
