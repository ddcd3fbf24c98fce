import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import {
  composeMessage,
  furtherDigests,
  type ComposedMessage,
  type Outgoing,
} from '../../../../../actors/as2/protocol/compose.ts'
import { keptRandomness } from '../../../../../actors/as2/protocol/making.ts'
import { micEquals } from '../../../../../actors/as2/protocol/mic.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import { composeStream } from '../../../../../actors/as2/protocol/stream/compose-stream.ts'
import { IN_MEMORY_BYTES } from '../../../../../actors/as2/protocol/stream/limits.ts'
import { until } from '../../../../support/processes.ts'
import {
  bytesOf,
  chunksOf,
  content,
  cuts,
  ecReceiver,
  ecSender,
  MULTIPART,
  multipartOf,
  outgoing,
  PIECE,
  randomLike,
  receiver,
  sender,
} from './outgoing.ts'

t.setTimeout(300_000)

async function holds(
  facts: Omit<Outgoing, 'content'>,
  bytes: Buffer,
  limitBytes: number,
  cuts: readonly number[],
): Promise<void> {
  const further = cuts.length % 3 === 0 ? furtherDigests(facts) : []
  const message = { ...facts, content: facts.contentType === MULTIPART ? multipartOf(bytes) : bytes, further }
  const making = { limitBytes, randomness: keptRandomness() }
  const held = await composeMessage(message, making)
  const disposable = cuts.length % 2 === 0
  const streaming = { content: chunksOf(message.content, cuts), disposable }
  const streamed = composeStream({ ...message, ...streaming }, making)
  if (streamed.mics() !== null) throw new Error('the MIC is told before it can be known')
  const body = await bytesOf(streamed.body)
  const same =
    body.equals(held.body) &&
    JSON.stringify(streamed.headers) === JSON.stringify(held.headers) &&
    JSON.stringify(streamed.mics()) === JSON.stringify(micsOf(held))
  if (!same) throw new Error('the stream differs')
  const incoming = await readMessage({
    headers: streamed.headers,
    body,
    decryption: [receiver, ecReceiver],
    signers: [sender.certificate, ecSender.certificate],
    maxContentBytes: 10_000_000,
  })
  if (!incoming.content.equals(message.content)) throw new Error('the content does not arrive')
  const { signature, encryption, transferEncoding } = message
  if (!micEquals(incoming.mic, held.mic)) throw new Error('the MIC is not what a receiver computes')
  const arrived =
    incoming.signed === (signature !== null) &&
    incoming.encrypted === (encryption !== null) &&
    incoming.compressed === (message.compression !== 'None')
  if (!arrived) throw new Error('the layers do not arrive')
  if (transferEncoding === 'base64' && encryption !== null && !/^[\r\n!-~]*$/.test(body.toString('latin1')))
    throw new Error('not base64')
}

function micsOf({ mic, alternativeMic, furtherMics }: ComposedMessage) {
  return { mic, alternativeMic, furtherMics }
}

t.test('A stream gives the bytes, headers and MICs of the message made in memory', async () => {
  await fc.assert(
    fc.asyncProperty(outgoing, content(3_000), fc.nat(3_000), cuts, async (facts, bytes, limit, at) =>
      holds(facts, bytes, limit, at),
    ),
    { numRuns: 400 },
  )
})

t.test('Also around the sizes at which pieces end, and with pieces of every length', async () => {
  const near = fc.tuple(fc.constantFrom(PIECE, 2 * PIECE, 5 * PIECE), fc.integer({ min: -300, max: 300 }))
  await fc.assert(
    fc.asyncProperty(
      outgoing,
      near,
      fc.boolean(),
      fc.nat(),
      cuts,
      async (facts, [size, by], random, seed, at) => {
        const bytes = random ? randomLike(size + by, seed) : Buffer.alloc(size + by, `LIN+${seed}'\r\n`)
        await holds(facts, bytes, PIECE, at)
      },
    ),
    { numRuns: 120 },
  )
})

t.test('Octets up to the limit have definite lengths, and one more has not', async (t) => {
  const facts = fc.sample(outgoing, { numRuns: 1, seed: 1 })[0]
  if (facts === undefined) throw new Error('no sample')
  const encryption = {
    algorithm: 'AES256-GCM',
    keyTransport: 'OAEP',
    certificate: receiver.certificate,
  } as const
  const message = {
    ...facts,
    encryption,
    signature: null,
    compression: 'None',
    transferEncoding: 'binary',
  } as const
  const whole = await composeMessage({ ...message, content: Buffer.alloc(1_000) })
  t.equal(whole.body[1], 0x82, 'definite')
  const entityBytes = (limitBytes: number) =>
    composeMessage({ ...message, content: Buffer.alloc(1_000) }, { limitBytes, randomness: keptRandomness() })
  // GCM gives as many octets as it takes: the entity with its headers.
  const headers = 1_000 + (await lengthOfHeaders(whole.headers, message))
  t.equal((await entityBytes(headers)).body[1], 0x82)
  t.equal((await entityBytes(headers - 1)).body[1], 0x80, 'indefinite')
})

async function lengthOfHeaders(_: unknown, message: Omit<Outgoing, 'content'>): Promise<number> {
  const disposition =
    message.fileName === null
      ? ''
      : `Content-Disposition: attachment; filename="_bersicht.edi"; filename*=UTF-8''%C3%9Cbersicht.edi\r\n`
  return `Content-Type: ${message.contentType}\r\nContent-Transfer-Encoding: binary\r\n${disposition}\r\n`
    .length
}

t.test('Of an endless message no more is held than some chunks, and who breaks off closes it', async () => {
  const chunk = randomBytes(PIECE)
  await fc.assert(
    fc.asyncProperty(outgoing, async (facts) => {
      let madeBytes = 0
      let closed = false
      async function* endless(): AsyncGenerator<Buffer> {
        try {
          for (;;) {
            madeBytes += PIECE
            yield Buffer.from(chunk)
          }
        } finally {
          closed = true
        }
      }
      let takenBytes = 0
      for await (const { length } of composeStream({ ...facts, content: endless() }).body) {
        takenBytes += length
        if (takenBytes > 3 * IN_MEMORY_BYTES) break
      }
      const heldBytes = madeBytes - takenBytes
      if (heldBytes > 2 * IN_MEMORY_BYTES) throw new Error(`${heldBytes} bytes are held`)
      await until(() => closed)
    }),
    { numRuns: 30 },
  )
})
