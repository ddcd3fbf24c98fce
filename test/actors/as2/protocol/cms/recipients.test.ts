import { createCipheriv, randomBytes } from 'node:crypto'
import t from 'tap'
import {
  algorithmIdentifier,
  element,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  tagged,
  toBuffer,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../../../../actors/as2/protocol/certificate.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { composeMessage } from '../../../../../actors/as2/protocol/compose.ts'
import type { Encryption } from '../../../../../actors/as2/protocol/cms/encryption-keys.ts'
import type { CertificateWishes, TestCertificate } from '../../../../support/certificates.ts'
import { encryptedKey, OID, recipientInfo } from '../crafted-cms.ts'
import { assertSame } from '../stream/both-readers.ts'

const PLAIN = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const receiver = makeCertificate({ commonName: 'Receiver' })
const stranger = makeCertificate({ commonName: 'Stranger' })
const KEY = randomBytes(32)
const OURS = recipientInfo(receiver, encryptedKey(receiver, KEY))
const THEIRS = recipientInfo(stranger, encryptedKey(stranger, KEY))

/** A message to the recipients in this order, sorted or not. */
const read = (...recipients: readonly Part[]): Promise<Incoming> => readWith([receiver], ...recipients)

function readWith(decryption: readonly TestCertificate[], ...recipients: readonly Part[]): Promise<Incoming> {
  const iv = randomBytes(16)
  const cipher = createCipheriv('aes-256-cbc', KEY, iv)
  const content = sequence(
    objectIdentifier(OID.data),
    algorithmIdentifier(OID.aes256Cbc, octetString(iv)),
    element(0x80, cipher.update(PLAIN), cipher.final()),
  )
  const data = sequence(integer(2), element(0x31, ...recipients), content)
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime'],
    ],
    body: toBuffer(sequence(objectIdentifier(OID.envelopedData), tagged(0, data))),
    decryption,
    signers: [],
    maxContentBytes: 1_000_000,
  })
}

t.test('Our recipient is found behind others, of whatever kind', async (t) => {
  // KEKRecipientInfo, PasswordRecipientInfo and OtherRecipientInfo (RFC 5652 §6.2.3 to §6.2.5), as far as they are read.
  const others = [2, 3, 4].map((tag) => tagged(tag, integer(0), octetString(randomBytes(20))))
  const rows: Record<string, readonly Part[]> = {
    alone: [OURS],
    'behind a stranger': [THEIRS, OURS],
    'before a stranger': [OURS, THEIRS],
    'behind other kinds': [...others, OURS],
    'twice, the first one counting': [OURS, recipientInfo(receiver, randomBytes(256))],
  }
  for (const [name, recipients] of Object.entries(rows)) {
    t.equal((await read(...recipients)).content.toString(), 'hello', name)
  }
})

t.test('A message that names too many recipients, none, or somebody else is refused', async (t) => {
  const crowd = Array.from({ length: 200 }, () => THEIRS)
  const rows: Record<string, [readonly Part[], RegExp]> = {
    'too many': [[...crowd, OURS], /too many recipients/],
    none: [[], /not encrypted to any of our/],
    'somebody else': [[THEIRS], /not encrypted to any of our/],
    'an algorithm that nobody knows': [
      [unknownTransport()],
      /key transport Diffie-Hellman without elliptic curves/,
    ],
  }
  for (const [name, [recipients, reason]] of Object.entries(rows)) {
    await t.rejects(read(...recipients), { name: 'Refusal', modifier: 'decryption-failed', reason }, name)
  }
})

/** Key transport by an algorithm that is none. */
function unknownTransport(): Part {
  return sequence(
    integer(0),
    prepareCertificate(receiver.certificate).issuerAndSerialNumber,
    algorithmIdentifier('1.2.840.113549.1.9.16.3.5'),
    octetString(randomBytes(256)),
  )
}

/** As a key that replaces another one gets it where nobody counts: the same name and number. */
function sameName(wishes: Omit<CertificateWishes, 'commonName'> = {}): TestCertificate {
  return makeCertificate({ commonName: 'Same', raw: { serialNumber: integer(1) }, ...wishes })
}

const TWINS: Readonly<Record<string, readonly [TestCertificate, TestCertificate]>> = {
  'two RSA keys': [sameName(), sameName()],
  'an RSA and an EC key': [sameName(), sameName({ keyType: 'ec' })],
  'two EC keys': [sameName({ keyType: 'ec' }), sameName({ keyType: 'ec' })],
  'two EC keys on different curves': [
    sameName({ keyType: 'ec' }),
    sameName({ keyType: 'ec', curve: 'P-384' }),
  ],
}

const WAYS: readonly Pick<Encryption, 'algorithm' | 'keyTransport'>[] = [
  { algorithm: 'AES128-CBC', keyTransport: 'PKCS1' },
  { algorithm: 'AES256-GCM', keyTransport: 'PKCS1' },
  { algorithm: '3DES', keyTransport: 'OAEP' },
]

/** Of the algorithms that pad their last block. */
const BLOCK_BYTES: ReadonlyMap<Encryption['algorithm'], number> = new Map([
  ['AES128-CBC', 16],
  ['3DES', 8],
])

/**
 * A body that ends in ciphertext or in its authentication tag, with one bit turned so that it never opens. The bit turned
 * in the last block but one makes the padding longer than a block; in the last block it would give other bytes, whose
 * padding is right by chance.
 */
function damaged(body: Buffer, algorithm: Encryption['algorithm']): Buffer {
  const back = BLOCK_BYTES.get(algorithm) ?? 0
  const copy = Buffer.from(body)
  copy.writeUInt8(copy.readUInt8(body.length - 1 - back) ^ 0x80, body.length - 1 - back)
  return copy
}

t.test('Certificates of one name and number each open what is encrypted to them', async (t) => {
  const signer = makeCertificate({ commonName: 'Sender' })
  for (const [name, [one, other]] of Object.entries(TWINS)) {
    for (const [to, decryption] of [
      [one, [one, other]],
      [one, [other, one]],
      [other, [one, other]],
      [other, [other, stranger, one]],
    ] as const) {
      for (const way of WAYS) {
        const { headers, body } = await composeMessage({
          as2From: 'sender',
          as2To: 'receiver',
          messageId: '<1@sender>',
          subject: null,
          date: new Date(),
          fileName: null,
          contentType: 'application/octet-stream',
          content: randomBytes(3_000),
          compression: 'None',
          signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...signer },
          encryption: { ...way, certificate: to.certificate },
          receipt: null,
          product: 'Sender/1',
        })
        const reception = { headers, signers: [signer.certificate], maxContentBytes: 100_000 }
        const opened = await assertSame({ ...reception, body, decryption }, [7])
        t.match(opened, { signed: true, algorithms: { encryption: way.algorithm } }, name)
        t.match(
          await assertSame({ ...reception, body: damaged(body, way.algorithm), decryption }, [7]),
          { modifier: 'decryption-failed', reason: /could not be decrypted with the key of its recipient/ },
          `${name}, damaged`,
        )
      }
    }
  }
})

t.test(
  'None of the keys of one name and number being the right one is told as any wrong key is',
  async (t) => {
    const [theirs, ...ours] = [sameName(), sameName(), sameName()]
    const refusal = {
      name: 'Refusal',
      modifier: 'decryption-failed',
      reason: /could not be decrypted with the key/,
    }
    await t.rejects(readWith(ours, recipientInfo(theirs, encryptedKey(theirs, KEY))), refusal)
    const elliptic = sameName({ keyType: 'ec' })
    await t.rejects(
      readWith([elliptic], recipientInfo(theirs, encryptedKey(theirs, KEY))),
      { name: 'Refusal', modifier: 'decryption-failed', reason: /not encrypted to any of our/ },
      'a key of another kind is none',
    )
  },
)
