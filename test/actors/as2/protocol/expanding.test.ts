/** Small messages that are large inside. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { BerReader } from '../../../../actors/as2/protocol/asn1/reader.ts'
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
} from '../../../../actors/as2/protocol/asn1/writer.ts'
import { BeyondMemory } from '../../../../actors/as2/protocol/beyond-memory.ts'
import { formatEnvelopedData } from '../../../../actors/as2/protocol/cms/enveloped-data.ts'
import { formatEntity } from '../../../../actors/as2/protocol/mime.ts'
import { formatMultipartSigned } from '../../../../actors/as2/protocol/multipart-signed.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import { readMessageStream } from '../../../../actors/as2/protocol/stream/read-message-stream.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { attributesOf, compressedData, OID, signedData, signerInfo } from './crafted-cms.ts'
import type { Task } from './reading-thread.ts'
import { assertSame, chunksOf } from './stream/both-readers.ts'

t.setTimeout(300_000)

const WAYS = ['in memory', 'as a stream'] as const
const CMS_TYPE = 'application/pkcs7-mime'
const BOUNDARY = 'boundary'
/** Far less than objects for each of some million pieces take. */
const HEAP = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 32 }
const sender = makeCertificate({ commonName: 'Sender' })

const received = (contentType: string, body: Buffer) => ({
  headers: [
    ['AS2-From', 'sender'],
    ['AS2-To', 'receiver'],
    ['Content-Type', contentType],
  ] as const,
  body,
  decryption: [],
  signers: [sender.certificate],
  maxContentBytes: 1_073_741_824,
})

/** Reads it in a thread that has little memory, and fails where that is not enough. */
async function readInThread(task: Task): Promise<unknown> {
  const thread = new Worker(new URL('reading-thread.ts', import.meta.url), {
    workerData: task,
    resourceLimits: HEAP,
  })
  const [outcome] = (await once(thread, 'message')) as [unknown]
  await thread.terminate()
  return outcome
}

/** An entity of multipart/signed whose part is nothing but line feeds, with the signature of something else. */
function signedLineFeeds(count: number): Buffer {
  const signature = signedData(null, signerInfo(sender, attributesOf(Buffer.from('something else'))))
  return Buffer.concat([
    Buffer.from(`Content-Type: multipart/signed; micalg=sha-256; boundary=${BOUNDARY}\r\n\r\n`),
    Buffer.from(`--${BOUNDARY}\r\nContent-Type: text/plain\r\n\r\n`),
    Buffer.alloc(count, '\n'),
    Buffer.from(`\r\n--${BOUNDARY}\r\nContent-Type: application/pkcs7-signature\r\n\r\n`),
    signature,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
  ])
}

/** An entity of opaque SignedData whose content comes in the pieces, which are DER. */
function signedPieces(pieces: Buffer, content: Buffer): Buffer {
  const encapsulated = sequence(objectIdentifier(OID.data), tagged(0, element(0x24, pieces)))
  const data = sequence(
    integer(1),
    setOf(algorithmIdentifier(OID.sha256)),
    encapsulated,
    setOf(signerInfo(sender, attributesOf(content))),
  )
  const cms = toBuffer(sequence(objectIdentifier(OID.signedData), tagged(0, data)))
  return Buffer.concat([Buffer.from(`Content-Type: ${CMS_TYPE}\r\n\r\n`), cms])
}

for (const way of WAYS) {
  t.test(`A signed part of millions of line feeds takes no more memory than its bytes, ${way}`, async (t) => {
    const body = compressedData(signedLineFeeds(4_000_000))
    t.ok(body.length < 20_000, 'it comes in some kilobytes')
    t.match(await readInThread({ way, contentType: CMS_TYPE, body }), { modifier: 'authentication-failed' })
  })

  t.test(`Content in millions of empty pieces is refused for their number, ${way}`, async (t) => {
    const pieces = Buffer.alloc(3_900_000, Buffer.from([0x04, 0x00]))
    const body = compressedData(signedPieces(pieces, Buffer.alloc(0)))
    t.ok(body.length < 20_000, 'it comes in some kilobytes')
    const outcome = await readInThread({ way, contentType: CMS_TYPE, body })
    t.match(outcome, { modifier: 'unexpected-processing-error', reason: /too many elements/ })
  })

  t.test(
    `Millions of elements in a field that nobody reads are refused for their number, ${way}`,
    async (t) => {
      const empty = Buffer.alloc(3_000_000, Buffer.from([0x04, 0x00]))
      const field = Buffer.concat([Buffer.from([0xa0, 0x80]), empty, Buffer.from([0, 0])])
      const data = sequence(integer(1), field)
      const body = toBuffer(sequence(objectIdentifier(OID.signedData), tagged(0, data)))
      const outcome = await readInThread({ way, contentType: CMS_TYPE, body })
      t.match(outcome, { modifier: 'unexpected-processing-error', reason: /too many elements/ })
    },
  )
}

t.test('Content in pieces of some bytes each is read, in memory and as a stream', async (t) => {
  const content = Buffer.alloc(1_000_000, 'some text ')
  const pieces: Buffer[] = []
  for (let at = 0; at < content.length; at += 50)
    pieces.push(toBuffer(octetString(content.subarray(at, at + 50))), Buffer.from([0x04, 0x00]))
  const body = compressedData(signedPieces(Buffer.concat(pieces), content))
  const outcome = await assertSame(received(CMS_TYPE, body), [65_536])
  t.ok(outcome.content?.equals(content))
})

t.test('An octet string has no chunks where there are no octets', (t) => {
  const empty = new BerReader(Buffer.from([0x24, 0x04, 0x04, 0x00, 0x04, 0x00])).next()
  t.same(empty.octetChunks(), [])
  t.equal(empty.octets().length, 0)
  t.end()
})

t.test('A message that expands to some hundred megabytes is not held in memory, but streams', async (t) => {
  const contentBytes = 200_000_000
  const entity = Buffer.concat([
    Buffer.from('Content-Type: text/plain\r\n\r\n'),
    Buffer.alloc(contentBytes, 'a text that repeats itself '),
  ])
  const message = received(CMS_TYPE, compressedData(entity))
  t.ok(message.body.length < 1_000_000, 'its body is small enough for memory')
  await t.rejects(readMessage(message), BeyondMemory)
  let sizeBytes = 0
  const facts = await readMessageStream({
    ...message,
    body: chunksOf(message.body, [65_536]),
    again: () => chunksOf(message.body, [65_536]),
    sink: async (content) => {
      for await (const chunk of content) sizeBytes += chunk.length
    },
  })
  t.equal(sizeBytes, contentBytes)
  t.match(facts, { sizeBytes: contentBytes, compressed: true })
})

t.test('What is condemned by its layers is not expanded, or nothing of it is kept', async (t) => {
  const receiver = makeCertificate({ commonName: 'Receiver' })
  const entityOf = ({ headers, body }: { headers: HeaderList; body: Buffer }): Buffer =>
    formatEntity(headers, body)
  const type = (name: string): HeaderList => [['Content-Type', name]]
  const signing = { algorithm: 'SHA256', scheme: 'PKCS1', ...sender } as const
  const encryption = { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', ...receiver } as const
  const expanding = compressedData(
    entityOf({ headers: type('text/plain'), body: Buffer.alloc(50_000_000, 'a text ') }),
  )
  const compressed = entityOf({ headers: type(CMS_TYPE), body: expanding })
  const signed = await formatMultipartSigned(compressed, { signing, signingTime: new Date() })
  const signedType = new Map(signed.headers).get('Content-Type') ?? ''
  const secure = { signed: true, encrypted: true }
  const notEncrypted = { modifier: 'insufficient-message-security', reason: 'the message is not encrypted' }
  const notSigned = { modifier: 'insufficient-message-security', reason: 'the message is not signed' }
  const rows = {
    'compressed, not encrypted': {
      message: received(CMS_TYPE, expanding),
      require: secure,
      outcome: notEncrypted,
    },
    'compressed and signed, not encrypted': {
      message: received(signedType, signed.body),
      require: secure,
      outcome: { ...notEncrypted, mic: { algorithm: 'SHA256' } },
    },
    'compressed, not signed': {
      message: received(CMS_TYPE, expanding),
      require: { signed: true, encrypted: false },
      outcome: notSigned,
    },
    'compressed and encrypted, not signed': {
      message: received(CMS_TYPE, formatEnvelopedData(compressed, encryption).bytes),
      require: secure,
      // Not all of it is looked at, so that nobody knows whether it was text.
      outcome: { ...notSigned, modifier: 'decryption-failed' },
    },
    'of more than it may be': {
      message: { ...received(CMS_TYPE, expanding), maxContentBytes: 20_000_000 },
      require: { signed: true, encrypted: false },
      outcome: notSigned,
    },
  }
  for (const [name, { message, require, outcome }] of Object.entries(rows)) {
    let handed = 0
    const { body, ...reception } = message
    const reading = readMessageStream({
      ...reception,
      decryption: [receiver],
      require,
      body: chunksOf(body, [65_536]),
      again: () => chunksOf(body, [65_536]),
      sink: async (content) => {
        for await (const chunk of content) handed += chunk.length
      },
    })
    t.match(await reading.catch((thrown: unknown) => thrown), outcome, name)
    t.equal(handed, 0, `${name}: nothing is kept`)
    const inMemory = await readMessage({ ...message, decryption: [receiver], require }).catch(
      (thrown: unknown) => thrown,
    )
    const isExpanded = inMemory instanceof BeyondMemory
    t.equal(isExpanded, outcome.reason === notSigned.reason, `${name}: in memory`)
    if (!isExpanded) t.match(inMemory, outcome, name)
  }
})

t.test('What lacks a signature is refused for the same in memory, without a MIC', async (t) => {
  const entity = Buffer.from('Content-Type: text/plain\r\n\r\na text')
  const message = {
    ...received(CMS_TYPE, compressedData(entity)),
    require: { signed: true, encrypted: false },
  }
  t.match(await assertSame(message, [997]), { modifier: 'insufficient-message-security', mic: null })
})

t.test('A message that expands to more than it may be is refused where that is little', async (t) => {
  const entity = Buffer.alloc(3_000_000, 'a text that repeats itself ')
  const message = { ...received(CMS_TYPE, compressedData(entity)), maxContentBytes: 1_000_000 }
  t.match(await assertSame(message, [65_536]), {
    modifier: 'decompression-failed',
    reason: /expands to more than/,
  })
})
