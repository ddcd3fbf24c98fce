import fc from 'fast-check'
import t from 'tap'
import { makeSendable, type Sendable } from '../../../../actors/as2/sending/sendable.ts'
import { sentContent } from '../../../../actors/as2/sending/sent-content.ts'
import { composeMessage, furtherDigests } from '../../../../actors/as2/protocol/compose.ts'
import type { Mic } from '../../../../actors/as2/protocol/mic.ts'
import { IN_MEMORY_BYTES } from '../../../../actors/as2/protocol/stream/limits.ts'
import {
  bytesOf,
  chunksOf,
  MULTIPART,
  multipartOf,
  outgoing,
  randomLike,
} from '../protocol/stream/outgoing.ts'

t.setTimeout(300_000)

const bytes = randomLike(IN_MEMORY_BYTES + 100_000, 1)
const content = {
  sizeBytes: bytes.length,
  read: async () => bytes,
  open: async () => chunksOf(bytes, [1, 70_000, 500_000]),
}
const { signal } = new AbortController()

t.test('What is sent has the length that was counted, and the MIC that was known before', async () => {
  await fc.assert(
    fc.asyncProperty(outgoing, fc.boolean(), fc.boolean(), async (facts, chunked, micFirst) => {
      const message = await makeSendable(facts, content, { chunked, micFirst, signal })
      const { body } = message
      if (Buffer.isBuffer(body)) throw new Error('a large message is held in memory')
      const before = message.mics()
      if (message.isWhole()) throw new Error('it is whole before it is made')
      if ((body.length === null) !== chunked) throw new Error('the length is told where it need not be')
      if (before === null && (micFirst || !chunked)) throw new Error('the MIC is not known')
      const first = await bytesOf(body.open())
      if (!message.isWhole()) throw new Error('it is not whole')
      const after = JSON.stringify(message.mics())
      if (before !== null && JSON.stringify(before) !== after) throw new Error('the MIC is another one')
      const digests = furtherDigests(facts)
      const { furtherMics: expected } = await composeMessage({ ...facts, content: bytes, further: digests })
      const isAsync = before !== null && micFirst
      if (isAsync && JSON.stringify(before.furtherMics) !== JSON.stringify(expected))
        throw new Error('a receipt that comes by itself finds no further MIC')
      await furtherAgree(message, expected)
      if (body.length !== null && first.length !== body.length) throw new Error('the length is another one')
      const second = await bytesOf(body.open())
      if (!second.equals(first)) throw new Error('a second making gives other bytes')
    }),
    { numRuns: 60 },
  )
})

/** Whichever digest the receipt has its MIC in, but for MD5. */
async function furtherAgree(message: Sendable, expected: readonly Mic[]): Promise<void> {
  for (const digest of ['SHA1', 'SHA384', 'MD5'] as const) {
    const further = await message.furtherMics(digest)
    const inDigest = expected.filter(({ algorithm }) => algorithm === digest)
    if (JSON.stringify(further) !== JSON.stringify(inDigest))
      throw new Error(`the further MICs in ${digest} are other ones`)
  }
}

t.test('A message up to the limit is held in memory', async (t) => {
  const [facts] = fc.sample(outgoing, { numRuns: 1, seed: 1 })
  if (facts === undefined) throw new Error('no sample')
  const small = {
    ...content,
    sizeBytes: IN_MEMORY_BYTES,
    read: async () => bytes.subarray(0, IN_MEMORY_BYTES),
  }
  const message = await makeSendable(facts, small, { chunked: true, micFirst: false, signal })
  t.ok(Buffer.isBuffer(message.body))
  t.ok(message.isWhole())
  t.not(message.mics(), null)
})

t.test('So are its further MICs made only where they are asked for', async () => {
  const small = { ...content, sizeBytes: 3_000, read: async () => bytes.subarray(0, 3_000) }
  await fc.assert(
    fc.asyncProperty(outgoing, fc.boolean(), async (facts, micFirst) => {
      const message = await makeSendable(facts, small, { chunked: true, micFirst, signal })
      const digests = furtherDigests(facts)
      const { furtherMics: expected } = await composeMessage({
        ...facts,
        content: await small.read(),
        further: digests,
      })
      const before = message.mics()?.furtherMics
      if (JSON.stringify(before) !== JSON.stringify(micFirst ? expected : []))
        throw new Error('other ones are made along with it')
      await furtherAgree(message, expected)
    }),
    { numRuns: 60 },
  )
})

const covering = (message: Sendable): string => {
  const { mic = null, alternativeMic = null } = message.mics() ?? {}
  return JSON.stringify([mic, alternativeMic])
}

t.test('Parts that are written anew are the same in memory and as a stream, and each time', async () => {
  const named = Buffer.from('--x\r\nContent-Disposition: attachment; filename="secret.bin"\r\n\r\nA\0\r\n')
  const several = Buffer.concat([named, multipartOf(bytes)])
  const wishes = { chunked: false, micFirst: false, signal }
  await fc.assert(
    fc.asyncProperty(outgoing, fc.boolean(), async (facts, send_file_name) => {
      const whole = { ...facts, contentType: MULTIPART }
      const { transferEncoding: content_transfer_encoding = 'binary' } = facts
      const make = async (sizeBytes: number) => {
        const kept = {
          sizeBytes,
          read: async () => several,
          open: async () => chunksOf(several, [1, 30, 70, 500_000]),
        }
        return makeSendable(
          whole,
          sentContent(kept, whole, { send_file_name, content_transfer_encoding }),
          wishes,
        )
      }
      const held = await make(several.length % IN_MEMORY_BYTES)
      const streamed = await make(several.length)
      if (!Buffer.isBuffer(held.body) || Buffer.isBuffer(streamed.body)) throw new Error('not both ways')
      const body = await bytesOf(streamed.body.open())
      if (streamed.body.length !== body.length) throw new Error('the length is another one')
      if (covering(held) !== covering(streamed)) throw new Error('another MIC')
      if (facts.signature === null && facts.encryption === null && !held.body.equals(body))
        throw new Error('other bytes')
      const isOpen = facts.encryption === null && facts.compression === 'None'
      if (isOpen && body.includes('secret.bin') !== send_file_name) throw new Error('the name')
      const isAsIs = send_file_name && content_transfer_encoding === 'binary'
      if (isOpen && body.includes(several) !== isAsIs) throw new Error('not as it stands')
    }),
    { numRuns: 25 },
  )
})
