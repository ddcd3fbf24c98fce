/** What a message tells only at its end, and what ends its reading. */
import { createCipheriv, randomBytes } from 'node:crypto'
import t from 'tap'
import {
  algorithmIdentifier,
  element,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  toBuffer,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { composeMessage } from '../../../../../actors/as2/protocol/compose.ts'
import type { Outgoing } from '../../../../../actors/as2/protocol/compose.ts'
import type { HeaderList } from '../../../../../runtime/mime/headers.ts'
import { micEquals } from '../../../../../actors/as2/protocol/mic.ts'
import type { IncomingFacts } from '../../../../../actors/as2/protocol/incoming.ts'
import { Refusal } from '../../../../../actors/as2/protocol/refusal.ts'
import { readMessageStream } from '../../../../../actors/as2/protocol/stream/read-message-stream.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attribute, compressedData, encryptedKey, OID, recipientInfo } from '../crafted-cms.ts'
import { assertSame, chunksOf } from './both-readers.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })

const SIGNED: Outgoing = {
  as2From: 'sender',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: null,
  date: new Date('2026-11-21T08:00:00Z'),
  fileName: 'a.edi',
  contentType: 'application/edifact',
  content: Buffer.from('UNB+UNOA\r\n'.repeat(2_000)),
  compression: 'None',
  signature: {
    algorithm: 'SHA384',
    scheme: 'PKCS1',
    certificate: sender.certificate,
    privateKey: sender.privateKey,
  },
  encryption: null,
  receipt: null,
  product: 'Partner/1.0',
}

const HEADERS: HeaderList = [
  ['AS2-From', 'sender'],
  ['AS2-To', 'receiver'],
  ['Content-Type', 'application/pkcs7-mime'],
]

interface Reading {
  readonly incoming: IncomingFacts
  readonly content: Buffer
  readonly readings: number
}

async function read(
  headers: HeaderList,
  body: Buffer,
  chunking: readonly number[] = [997],
): Promise<Reading> {
  let readings = 1
  const taken: Buffer[] = []
  const incoming = await readMessageStream({
    headers,
    body: chunksOf(body, chunking),
    again: () => {
      readings++
      return chunksOf(body, chunking)
    },
    sink: async (content) => {
      for await (const chunk of content) taken.push(chunk)
    },
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
  })
  return { incoming, content: Buffer.concat(taken), readings }
}

/** Why it is refused, after how many readings. */
async function refused(headers: HeaderList, body: Buffer): Promise<{ refusal: Refusal; readings: number }> {
  let readings = 0
  const again = (): AsyncIterable<Buffer> => {
    readings++
    return chunksOf(body, [997])
  }
  const sink = async (content: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of content) void chunk
  }
  const reception = {
    headers,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
  }
  const refusal = await readMessageStream({ ...reception, body: again(), again, sink }).catch(
    (thrown: unknown) => thrown,
  )
  if (!(refusal instanceof Refusal)) throw new Error('was not refused', { cause: refusal })
  return { refusal, readings }
}

t.test(
  'A signature by the digest that is announced takes one reading; one by another, or of other line ends, two',
  async (t) => {
    const { headers, body, mic } = await composeMessage(SIGNED)
    const announcing = (micalg: string): HeaderList =>
      headers.map(([name, value]) => [name, value.replace(/micalg=[^;]+;/, micalg)])
    const cases: [string, HeaderList, Buffer, number][] = [
      ['its own', headers, body, 1],
      ['unknown, so that all are computed', announcing('micalg=unknown;'), body, 1],
      ['none', announcing(''), body, 1],
      ['another', announcing('micalg=sha-256;'), body, 2],
      ['its own, with the line ends changed on the way', headers, toLf(body), 2],
    ]
    for (const [name, fields, bytes, readings] of cases) {
      const found = await read(fields, bytes)
      t.equal(found.readings, readings, name)
      t.ok(micEquals(found.incoming.mic, mic), name)
    }
  },
)

/** As a gateway that makes text of it. */
function toLf(body: Buffer): Buffer {
  return Buffer.from(body.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')
}

interface AuthEnvelope {
  readonly attributes: boolean
  readonly tagBytes: number
  readonly fault?: 'wrong key' | 'wrong key length' | 'wrong tag' | null
}

/** AuthEnvelopedData with attributes and a tag of any length. */
function authEnveloped(plain: Buffer, { attributes, tagBytes, fault = null }: AuthEnvelope): Buffer {
  const [key, iv] = [randomBytes(16), randomBytes(12)]
  const transported =
    fault === 'wrong key length' ? randomBytes(32) : fault === 'wrong key' ? randomBytes(16) : key
  const cipher = createCipheriv('aes-128-gcm', key, iv, { authTagLength: tagBytes })
  const set = toBuffer(setOf(attribute(OID.contentType, objectIdentifier(OID.data))))
  if (attributes) cipher.setAAD(set)
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()])
  const algorithm = algorithmIdentifier(OID.aes128Gcm, sequence(octetString(iv)))
  const data = sequence(
    integer(0),
    setOf(recipientInfo(receiver, encryptedKey(receiver, transported))),
    sequence(objectIdentifier(OID.data), algorithm, element(0x80, ciphertext)),
    ...(attributes ? [Buffer.concat([Buffer.from([0xa1]), set.subarray(1)])] : []),
    octetString(fault === 'wrong tag' ? Buffer.alloc(tagBytes) : cipher.getAuthTag()),
  )
  return toBuffer(sequence(objectIdentifier('1.2.840.113549.1.9.16.1.23'), tagged(0, data)))
}

t.test(
  'Authenticated attributes and short tags, which stand behind the content, take another reading',
  async (t) => {
    const plain = Buffer.from(`Content-Type: text/plain\r\n\r\n${'line\r\n'.repeat(1_000)}`)
    for (const [how, readings] of [
      [{ attributes: false, tagBytes: 16 }, 1],
      [{ attributes: true, tagBytes: 16 }, 2],
      [{ attributes: false, tagBytes: 12 }, 2],
    ] as const) {
      const body = authEnveloped(plain, how)
      const found = await read(HEADERS, body)
      t.equal(found.readings, readings)
      t.ok(found.content.equals(plain.subarray(28)))
      body[body.length - 1] = (body.at(-1) ?? 0) ^ 1
      const reception = { headers: HEADERS, decryption: [receiver], signers: [], maxContentBytes: 1_000_000 }
      t.match(await assertSame({ ...reception, body }, [997]), { modifier: 'decryption-failed' })
    }
  },
)

t.test('A wrong tag takes as many readings as a wrong key, whatever the length of the tag', async (t) => {
  const plain = Buffer.from(`Content-Type: text/plain\r\n\r\n${'line\r\n'.repeat(1_000)}`)
  for (const attributes of [false, true]) {
    for (const tagBytes of [12, 16]) {
      for (const fault of ['wrong key', 'wrong key length', 'wrong tag'] as const) {
        const body = authEnveloped(plain, { attributes, tagBytes, fault })
        const outcome = await refused(HEADERS, body)
        t.match(outcome, { refusal: { modifier: 'decryption-failed' }, readings: 2 }, `${fault}, ${tagBytes}`)
      }
    }
  }
})

t.test(
  'What expands beyond the limit is stopped there, and what came before it is not handed out',
  async (t) => {
    const bomb = compressedData(Buffer.alloc(50_000_000))
    let handed = 0
    const reading = readMessageStream({
      headers: HEADERS,
      body: chunksOf(bomb, [1_000]),
      again: () => chunksOf(bomb, [1_000]),
      sink: async (content) => {
        for await (const chunk of content) handed += chunk.length
      },
      decryption: [],
      signers: [],
      maxContentBytes: 100_000,
    })
    const thrown = await reading.catch((each: unknown) => each)
    t.match(thrown, { modifier: 'decompression-failed', reason: /expands to more than 231072 bytes/ })
    t.ok(handed <= 100_000)
  },
)

t.test('A sink that fails ends the reading with its own failure', async (t) => {
  const { headers, body } = await composeMessage({ ...SIGNED, content: randomBytes(1_000_000) })
  const full = new Error('the disk is full')
  let readBytes = 0
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of chunksOf(body, [10_000])) {
      readBytes += chunk.length
      yield chunk
    }
  }
  const reading = readMessageStream({
    headers,
    body: counted(),
    again: counted,
    sink: async (content) => {
      for await (const chunk of content) if (chunk.length > 0) throw full
    },
    decryption: [],
    signers: [sender.certificate],
    maxContentBytes: 2_000_000,
  })
  t.equal(await reading.catch((thrown: unknown) => thrown), full)
  t.ok(readBytes < body.length, 'the rest is not read')
})

t.test('A body that breaks off breaks the content off, and a judge who refuses does', async (t) => {
  const { headers, body } = await composeMessage({ ...SIGNED, content: randomBytes(500_000) })
  const gone = new Error('the sender is gone')
  const broken = async function* (): AsyncGenerator<Buffer> {
    yield* chunksOf(body.subarray(0, 300_000), [10_000])
    throw gone
  }
  const outcomes: unknown[] = []
  const message = {
    headers,
    again: broken,
    sink: async (content: AsyncIterable<Buffer>) => {
      try {
        for await (const chunk of content) void chunk
        outcomes.push('whole')
      } catch (thrown) {
        outcomes.push(thrown)
        throw thrown
      }
    },
    decryption: [],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
  }
  t.equal(await readMessageStream({ ...message, body: broken() }).catch((thrown: unknown) => thrown), gone)
  const refusal = new Refusal('authentication-failed', 'the certificate is expired')
  const judged = readMessageStream({
    ...message,
    body: chunksOf(body, [10_000]),
    judge: ({ signed }) => {
      if (signed) throw refusal
    },
  })
  const thrown = await judged.catch((each: unknown) => each)
  t.match(thrown, { modifier: 'authentication-failed', reason: 'the certificate is expired' })
  t.equal(outcomes[0], gone)
  t.equal(outcomes[1], thrown)
  t.equal(outcomes.length, 2)
})
