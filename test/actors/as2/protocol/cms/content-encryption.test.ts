import { createCipheriv, randomBytes } from 'node:crypto'
import t from 'tap'
import {
  algorithmIdentifier,
  element,
  integer,
  NULL,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  toBuffer,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { paddingOf } from '../../../../../actors/as2/protocol/cms/content-encryption.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { Incoming, ReceivedMessage } from '../../../../../actors/as2/protocol/incoming.ts'
import { Refusal } from '../../../../../actors/as2/protocol/refusal.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attribute, encryptedKey, envelopedData, OID, recipientInfo } from '../crafted-cms.ts'
import { assertSame } from '../stream/both-readers.ts'

const PLAIN = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const AUTH_ENVELOPED_DATA = '1.2.840.113549.1.9.16.1.23'
const receiver = makeCertificate({ commonName: 'Receiver' })

function read(body: Buffer): Promise<Incoming> {
  return readMessage(messageOf(body))
}

function messageOf(body: Buffer): ReceivedMessage {
  return {
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime'],
    ],
    body,
    decryption: [receiver],
    signers: [],
    maxContentBytes: 1_000_000,
  }
}

async function refusalOf(body: Buffer): Promise<Refusal> {
  const outcome = await read(body).catch((thrown: unknown) => thrown)
  if (outcome instanceof Refusal) return outcome
  throw new Error('was not refused', { cause: outcome })
}

/** AES-128-GCM: the tag apart, of a length, over attributes. */
function sealed(tagBytes: number, attributes: Buffer | null) {
  const [key, nonce] = [randomBytes(16), randomBytes(12)]
  const cipher = createCipheriv('aes-128-gcm', key, nonce, { authTagLength: tagBytes })
  if (attributes !== null) cipher.setAAD(attributes)
  const ciphertext = Buffer.concat([cipher.update(PLAIN), cipher.final()])
  return { key, nonce, ciphertext, tag: cipher.getAuthTag() }
}

interface AuthEnvelope {
  readonly attributes?: readonly Part[]
  readonly parameters?: readonly Part[]
  /** So much of the tag is there. */
  readonly keptTagBytes?: number
}

function authEnveloped(
  tagBytes: number,
  { attributes = [], parameters = [], keptTagBytes = tagBytes }: AuthEnvelope = {},
): Buffer {
  const authenticated = attributes.length === 0 ? null : toBuffer(setOf(...attributes))
  const { key, nonce, ciphertext, tag } = sealed(tagBytes, authenticated)
  const content = sequence(
    objectIdentifier(OID.data),
    algorithmIdentifier(OID.aes128Gcm, sequence(octetString(nonce), ...parameters)),
    element(0x80, ciphertext),
  )
  const recipients = setOf(recipientInfo(receiver, encryptedKey(receiver, key)))
  const implicit =
    authenticated === null ? [] : [Buffer.concat([Buffer.from([0xa1]), authenticated.subarray(1)])]
  const data = sequence(
    integer(0),
    recipients,
    content,
    ...implicit,
    octetString(tag.subarray(0, keptTagBytes)),
  )
  return toBuffer(sequence(objectIdentifier(AUTH_ENVELOPED_DATA), tagged(0, data)))
}

t.test(
  'AuthEnvelopedData is opened with tags of 12 to 16 bytes, and with authenticated attributes',
  async (t) => {
    for (const tagBytes of [12, 13, 14, 15, 16]) {
      const bare = authEnveloped(tagBytes, { parameters: [integer(tagBytes)] })
      t.equal((await read(bare)).content.toString(), 'hello', `${tagBytes}`)
      t.equal((await read(authEnveloped(tagBytes))).content.toString(), 'hello', `${tagBytes}, not said`)
      const attributes = [attribute(OID.contentType, objectIdentifier(OID.data))]
      t.equal((await read(authEnveloped(tagBytes, { attributes }))).content.toString(), 'hello', 'attributes')
    }
    for (const tagBytes of [4, 8]) {
      t.equal((await refusalOf(authEnveloped(tagBytes))).modifier, 'decryption-failed', `${tagBytes}`)
    }
    const altered = authEnveloped(16, {
      attributes: [attribute(OID.contentType, objectIdentifier(OID.data))],
    })
    altered[altered.length - 20] = (altered.at(-20) ?? 0) ^ 1
    t.equal((await refusalOf(altered)).modifier, 'decryption-failed', 'altered attributes')
  },
)

t.test('A tag is as long as the parameters say, where they say it', async (t) => {
  for (const [stated, kept] of [
    [16, 12],
    [16, 15],
    [13, 12],
  ] as const) {
    const body = authEnveloped(stated, { parameters: [integer(stated)], keptTagBytes: kept })
    const found = await assertSame(messageOf(body), [997])
    t.match(found, { modifier: 'decryption-failed' }, `${kept} of ${stated}`)
  }
  const unsaid = await assertSame(messageOf(authEnveloped(16, { keptTagBytes: 12 })), [997])
  t.equal(unsaid.content?.toString(), 'hello', 'cut, where nothing is said')
})

t.test(
  'GCM inside EnvelopedData is opened as products write it, with the tag behind the content',
  async (t) => {
    const enveloped = (parameters: (nonce: Buffer) => Part, tagBytes = 16): Buffer => {
      const { key, nonce, ciphertext, tag } = sealed(tagBytes, null)
      return envelopedData(recipientInfo(receiver, encryptedKey(receiver, key)), {
        oid: OID.aes128Gcm,
        parameters: parameters(nonce),
        ciphertext: Buffer.concat([ciphertext, tag]),
      })
    }
    const rows: Record<string, Buffer> = {
      'GCMParameters with a length': enveloped((nonce) => sequence(octetString(nonce), integer(16))),
      'GCMParameters without a length': enveloped((nonce) => sequence(octetString(nonce))),
      'a bare nonce': enveloped((nonce) => octetString(nonce)),
      'a tag of 12 bytes': enveloped((nonce) => sequence(octetString(nonce), integer(12)), 12),
    }
    for (const [name, body] of Object.entries(rows)) {
      t.equal((await read(body)).content.toString(), 'hello', name)
    }
    const short = enveloped((nonce) => sequence(octetString(nonce), integer(4)), 4)
    t.match(await refusalOf(short), { modifier: 'decryption-failed', reason: /tag of 4 bytes/ })
  },
)

t.test('What nobody here decrypts is told by its name', async (t) => {
  const rows = {
    RC2: '1.2.840.113549.3.2',
    RC4: '1.2.840.113549.3.4',
    DES: '1.3.14.3.2.7',
    'Camellia-128': '1.2.392.200011.61.1.1.1.2',
    'ChaCha20-Poly1305': '1.2.840.113549.1.9.16.3.18',
    'content encryption 1.2.3.4 ': '1.2.3.4',
  }
  for (const [name, oid] of Object.entries(rows)) {
    const body = envelopedData(recipientInfo(receiver, encryptedKey(receiver, randomBytes(16))), {
      oid,
      parameters: sequence(integer(58), octetString(randomBytes(8))),
      ciphertext: Buffer.alloc(64),
    })
    const { modifier, reason } = await refusalOf(body)
    t.equal(modifier, 'decryption-failed', name)
    t.match(reason, name)
  }
})

t.test('An envelope without content is refused', async (t) => {
  const algorithm = algorithmIdentifier(OID.aes256Cbc, octetString(randomBytes(16)))
  const recipients = setOf(recipientInfo(receiver, encryptedKey(receiver, randomBytes(32))))
  const envelope = (...content: readonly Part[]): Buffer => {
    const info = sequence(objectIdentifier(OID.data), algorithm, ...content)
    return toBuffer(
      sequence(objectIdentifier(OID.envelopedData), tagged(0, sequence(integer(0), recipients, info))),
    )
  }
  for (const body of [envelope(), envelope(NULL)]) {
    t.match(await refusalOf(body), { modifier: 'decryption-failed', reason: /content is missing/ })
  }
  t.equal((await refusalOf(envelope(element(0x80, Buffer.alloc(0))))).modifier, 'decryption-failed', 'empty')
  t.equal((await refusalOf(envelope(element(0x80, Buffer.alloc(17))))).modifier, 'decryption-failed', 'cut')
})

t.test('A padding is right in one form alone', (t) => {
  for (let last = 0; last < 256; last++) {
    const block = Buffer.concat([Buffer.alloc(16, 1), Buffer.alloc(16, last)])
    const right = last >= 1 && last <= 16
    t.same(paddingOf(block, 16), { intact: right, bytes: right ? last : 1 }, `${last}`)
    if (!right || last === 1) continue
    for (let at = 2; at <= last; at++) {
      const wrong = Buffer.from(block)
      wrong[wrong.length - at] = last ^ 0x80
      t.equal(paddingOf(wrong, 16).intact, false)
    }
  }
  t.equal(paddingOf(Buffer.alloc(15, 1), 16).intact, false, 'less than a block')
  t.end()
})
