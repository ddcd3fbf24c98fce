import { ECDH, createECDH, randomBytes } from 'node:crypto'
import t from 'tap'
import { integer, NULL, objectIdentifier, sequence } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../../../../actors/as2/protocol/certificate.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../../actors/as2/protocol/incoming.ts'
import { Refusal } from '../../../../../actors/as2/protocol/refusal.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import type { TestCertificate } from '../../../../support/certificates.ts'
import { agreedEnvelope, byKeyIdentifier } from '../crafted-agreement.ts'
import type { Agreement } from '../crafted-agreement.ts'

const PLAIN = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const P256 = '1.2.840.10045.3.1.7'
const P384 = '1.3.132.0.34'
const receiver = makeCertificate({ commonName: 'Receiver', keyType: 'ec' })

function read(body: Buffer, ...decryption: TestCertificate[]): Promise<Incoming> {
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime'],
    ],
    body,
    decryption,
    signers: [],
    maxContentBytes: 1_000_000,
  })
}

async function refusalOf(body: Buffer): Promise<Refusal> {
  const outcome = await read(body, receiver).catch((thrown: unknown) => thrown)
  if (outcome instanceof Refusal) return outcome
  throw new Error('was not refused', { cause: outcome })
}

const agreed = (agreement: Agreement = {}): Buffer => agreedEnvelope(PLAIN, receiver, agreement)

t.test('A message is opened however the parts of its key agreement are written', async (t) => {
  const [extension = Buffer.alloc(0), ofKey = extension] = prepareCertificate(
    receiver.certificate,
  ).subjectKeyIdentifiers
  const others = Array.from({ length: 5 }, () => byKeyIdentifier(randomBytes(20)))
  const rows: Record<string, Agreement> = {
    'curve left out': {},
    'curve NULL': { curve: [NULL] },
    'curve named': { curve: [objectIdentifier(P256)] },
    'with keying material': { ukm: randomBytes(64) },
    'with empty keying material': { ukm: Buffer.alloc(0) },
    'NULL for the parameters of the wrap': { wrapParameters: [NULL] },
    'recipient by the identifier of the certificate': { identifiers: [byKeyIdentifier(extension)] },
    'recipient by the identifier of the key': { identifiers: [byKeyIdentifier(ofKey)] },
    'one of several recipients': { identifiers: [...others, byKeyIdentifier(extension)] },
    'with cofactor': { scheme: '1.3.132.1.14.1' },
  }
  for (const [name, agreement] of Object.entries(rows)) {
    const incoming = await read(agreed(agreement), makeCertificate({ commonName: 'Other' }), receiver)
    t.equal(incoming.content.toString(), 'hello', name)
    t.equal(incoming.algorithms.keyTransport, 'ECDH', name)
  }
})

t.test(
  'Points that are not on the curve are refused as any wrong key is, and tell nothing of ours',
  async (t) => {
    const { publicKeyBits } = prepareCertificate(receiver.certificate)
    const offCurve = Buffer.from(publicKeyBits)
    offCurve[40] = (offCurve[40] ?? 0) ^ 1
    const other = createECDH('prime256v1').generateKeys()
    const compressed = Buffer.from(
      ECDH.convertKey(other, 'prime256v1', undefined, 'hex', 'compressed').toString(),
      'hex',
    )
    const rows: Record<string, Buffer> = {
      'another point': other,
      'another point, compressed': compressed,
      'a point off the curve': offCurve,
      'a point of small order on another curve': Buffer.concat([
        Buffer.from([4]),
        Buffer.alloc(63),
        Buffer.from([2]),
      ]),
      'the point at infinity': Buffer.from([0]),
      'no point': Buffer.alloc(0),
      'a point of another curve': createECDH('secp384r1').generateKeys(),
      'coordinates out of range': Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 0xff)]),
    }
    for (const [name, point] of Object.entries(rows)) {
      const { modifier, reason, mic } = await refusalOf(agreed({ point }))
      t.same(
        { modifier, reason, mic },
        {
          modifier: 'decryption-failed',
          reason: 'the message could not be decrypted with the key of its recipient',
          mic: null,
        },
        name,
      )
    }
  },
)

t.test('What key agreement is not supported is told in words', async (t) => {
  const { issuerAndSerialNumber } = prepareCertificate(receiver.certificate)
  const rows: Record<string, [Agreement, RegExp]> = {
    'a key on another curve': [{ curve: [objectIdentifier(P384)] }, /not on the curve of our certificate/],
    'a curve of own making': [{ curve: [sequence(integer(1))] }, /not on the curve of our certificate/],
    "the sender's certificate": [
      { originator: issuerAndSerialNumber },
      /sender's certificate is not supported/,
    ],
    MQV: [{ scheme: '1.3.132.1.15.1' }, /MQV/],
    'a scheme that nobody knows': [{ scheme: '1.2.3.4' }, /key agreement 1\.2\.3\.4 is not supported/],
    'the wrap of RC2': [{ wrap: '1.2.840.113549.1.9.16.3.7' }, /RC2/],
  }
  for (const [name, [agreement, reason]] of Object.entries(rows)) {
    t.match(await refusalOf(agreed(agreement)), { modifier: 'decryption-failed', reason }, name)
  }
})

t.test('A message with very many recipients is refused', async (t) => {
  const identifiers = Array.from({ length: 200 }, () => byKeyIdentifier(randomBytes(20)))
  t.match(await refusalOf(agreed({ identifiers })), {
    modifier: 'decryption-failed',
    reason: /too many recipients/,
  })
})
