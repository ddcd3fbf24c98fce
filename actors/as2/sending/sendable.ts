import type { StreamedBody } from './http-body.ts'
import type { DigestName } from '../protocol/algorithms.ts'
import { composeMessage, furtherDigests } from '../protocol/compose.ts'
import type { OutgoingFacts } from '../protocol/outgoing.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { keptRandomness } from '../protocol/making.ts'
import type { Mic } from '../protocol/mic.ts'
import {
  composeStream,
  type Mics,
  type OutgoingStream,
  type StreamedMessage,
} from '../protocol/stream/compose-stream.ts'
import { IN_MEMORY_BYTES } from '../protocol/stream/limits.ts'
import { release } from '../protocol/stream/release.ts'

/** A message as it goes to the partner. */
export interface Sendable {
  /** Without Content-Length and Transfer-Encoding. */
  readonly headers: HeaderList
  readonly body: Buffer | StreamedBody
  /** What its receipt must show; null as long as that is not known, which is at the latest when all of it is made. */
  readonly mics: () => Mics | null
  /**
   * Those in a digest that were not made along with it, if it may have such: the content is read once more. Few products
   * use another digest than the message's own.
   */
  readonly furtherMics: (digest: DigestName) => Promise<readonly Mic[]>
  /** Whether all of it was handed over: an answer before that is not one to the message. */
  readonly isWhole: () => boolean
  readonly messageId: string
  readonly subject: string | null
}

export interface Content {
  readonly sizeBytes: number
  /** The whole of it, for one that is held in memory. */
  readonly read: () => Promise<Buffer>
  /** Ends with an error, before its last byte, when it is damaged. Nobody else holds its chunks. */
  readonly open: () => Promise<AsyncIterable<Buffer>>
}

export interface Wishes {
  /** Whether a large message may go without its length. */
  readonly chunked: boolean
  /** Whether the MIC must be known before the message goes: its receipt may come at any time. */
  readonly micFirst: boolean
  /** Ends the making with its reason. */
  readonly signal: AbortSignal
}

/** From so many bytes on a partner is asked before they travel: it may refuse the message by its headers alone. */
const ASKED_FROM_BYTES = 8 * IN_MEMORY_BYTES

/**
 * Makes a message: a small one in memory, a large one as a stream. Where its length or its MIC must be known first, the
 * stream is made twice, of the same bytes.
 * @throws ComposeError
 */
export async function makeSendable(
  outgoing: OutgoingFacts,
  content: Content,
  wishes: Wishes,
): Promise<Sendable> {
  if (content.sizeBytes > IN_MEMORY_BYTES) return streamed(outgoing, content, wishes)
  const { mic, alternativeMic, furtherMics, ...message } = await composeMessage({
    ...outgoing,
    content: await content.read(),
    further: wishes.micFirst ? furtherDigests(outgoing) : [],
  })
  return {
    ...message,
    mics: () => ({ mic, alternativeMic, furtherMics }),
    furtherMics: async (digest) => {
      const further = furtherDigests(outgoing).filter((each) => each === digest)
      if (further.length === 0) return []
      const again = { ...outgoing, ...counted(outgoing), content: await content.read(), further }
      return (await composeMessage(again)).furtherMics
    },
    isWhole: () => true,
  }
}

async function streamed(
  outgoing: OutgoingFacts,
  content: Content,
  { chunked, micFirst, signal }: Wishes,
): Promise<Sendable> {
  const making = { limitBytes: IN_MEMORY_BYTES, randomness: keptRandomness() }
  const make = (changes: Partial<OutgoingStream> = {}): StreamedMessage =>
    composeStream({ ...outgoing, ...changes, content: chunksOf(content, signal), disposable: true }, making)
  const further = micFirst ? furtherDigests(outgoing) : []
  let first: StreamedMessage | null = null
  let length: number | null = null
  if (!chunked) {
    first = make({ further })
    length = await lengthOf(first.body)
  } else if (micFirst) {
    first = make({ ...counted(outgoing), further })
    await lengthOf(first.body)
  }
  let sent = make()
  const open = (): AsyncIterable<Buffer> => {
    sent = make()
    return sent.body
  }
  const { headers, messageId, subject } = sent
  return {
    headers,
    body: { open, length, asksFirst: content.sizeBytes >= ASKED_FROM_BYTES, disposable: true },
    mics: () => first?.mics() ?? sent.mics(),
    furtherMics: async (digest) => {
      const asked = furtherDigests(outgoing).filter((each) => each === digest)
      if (asked.length === 0) return []
      const again = make({ ...counted(outgoing), further: asked })
      await lengthOf(again.body)
      return again.mics()?.furtherMics ?? []
    },
    isWhole: () => sent.mics() !== null,
    messageId,
    subject,
  }
}

/** What is made for its MICs alone: what is signed is the same without encryption. */
function counted({ signature }: OutgoingFacts): Partial<OutgoingFacts> {
  return signature === null ? {} : { encryption: null }
}

async function* chunksOf({ open }: Content, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const chunk of await open()) {
    signal.throwIfAborted()
    yield chunk
  }
}

async function lengthOf(body: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    release(chunk)
  }
  return bytes
}
