/** Opens an AS2 message of any size with bounded memory: what `readMessage` of read.ts finds, while it comes in. */
import { createHash } from 'node:crypto'
import { contentTypeOf } from '../../../../runtime/mime/attachment.ts'
import { AttachmentList } from '../../../../runtime/mime/attachment-list.ts'
import { decoderFor } from '../../../../runtime/mime/transfer-decoding.ts'
import { DIGESTS } from '../algorithms.ts'
import { readEnvelope } from '../envelope.ts'
import type { Envelope } from '../envelope.ts'
import { EqualEffort } from '../equal-effort.ts'
import { HeaderFields } from '../../../../runtime/mime/headers.ts'
import { micOfDigest } from '../mic.ts'
import type { Mic } from '../mic.ts'
import { checkPolicy, describe, digestOfReceipt, refusalOf } from '../read.ts'
import type { IncomingFacts, Progress, Reception } from '../incoming.ts'
import { Refusal } from '../refusal.ts'
import { ByteSource } from './byte-source.ts'
import { settled } from './conclusion.ts'
import type { Conclusion } from './conclusion.ts'
import type { StreamedEntity } from './entity.ts'
import { gathered } from './gather.ts'
import { NO_LAYERS, openLayers } from './layers.ts'
import type { Hindsight } from './layers.ts'
import { Outlet, SinkFailure } from './outlet.ts'
import type { Sink } from './outlet.ts'

export interface StreamedMessage extends Reception {
  readonly body: AsyncIterable<Buffer>
  /** The body once more: some messages tell only at their end how they had to be read. */
  readonly again: () => AsyncIterable<Buffer> | Promise<AsyncIterable<Buffer>>
  readonly sink: Sink
  /** Judges what was opened before it counts; what it throws refuses the message. */
  readonly judge?: (incoming: IncomingFacts) => void
}

const NOTHING_KNOWN: Hindsight = { authentication: null, signature: null, decrypted: null, text: null }

/**
 * Opens a message. The body is read to its end whatever is found in it, and nothing found counts before. The sink sees
 * the content's end only when all of the message was found in order. One that was decrypted and is refused as such has
 * been read twice, whatever is wrong with it: whoever alters ciphertexts learns nothing from a second reading.
 * @throws Refusal with the modifier for the receipt; what the body or the sink failed with
 */
export async function readMessageStream(message: StreamedMessage): Promise<IncomingFacts> {
  const envelope = readEnvelope(message.headers)
  const stopped = Promise.withResolvers<never>()
  stopped.promise.catch(() => undefined)
  const outlet = new Outlet(message.sink, (failure) => stopped.reject(failure))
  const effort = new EqualEffort()
  const progress: Progress = { encryption: null, compression: null, verification: null }
  const readings = new Readings(message, envelope, { outlet, stopped: stopped.promise, effort })
  try {
    const conclude = await readings.conclusion()
    const incoming = describe(conclude(progress), envelope, progress)
    checkPolicy(incoming, message)
    message.judge?.(incoming)
    await outlet.end()
    return incoming
  } catch (thrown) {
    const refusal = refusalOf(thrown, progress)
    await outlet.refuse(refusal)
    if (refusal instanceof Refusal && refusal.modifier === 'decryption-failed') await readings.spend()
    if (progress.verification === null) effort.complete(message.signers)
    throw thrown instanceof SinkFailure ? thrown.cause : refusal
  }
}

interface Ways {
  readonly outlet: Outlet
  /** Rejects when there is no use in reading on. */
  readonly stopped: Promise<never>
  readonly effort: EqualEffort
}

/** The readings of one message. */
class Readings {
  readonly #message: StreamedMessage
  readonly #envelope: Envelope
  readonly #ways: Ways
  /** What the first reading leaves to another one. */
  readonly #asked = { ...NOTHING_KNOWN }
  #readings = 0

  constructor(message: StreamedMessage, envelope: Envelope, ways: Ways) {
    this.#message = message
    this.#envelope = envelope
    this.#ways = ways
  }

  /** Reads twice where the first reading shows what had to be known before it. */
  async conclusion(): Promise<Conclusion> {
    const { body } = this.#message
    const first = await this.#read(body, { delivers: true, known: NOTHING_KNOWN, asked: this.#asked })
    const { authentication, signature, text } = this.#asked
    return authentication === null && signature === null && text === null ? first : this.#again()
  }

  /** Reads a message that was decrypted a second time, if that was not done, for nothing but the time that it takes. */
  async spend(): Promise<void> {
    if (this.#readings === 1 && this.#asked.decrypted !== null) await this.#again()
  }

  async #again(): Promise<Conclusion> {
    const body = await this.#message.again()
    return this.#read(body, { delivers: false, known: this.#asked, asked: { ...NOTHING_KNOWN } })
  }

  #read(body: AsyncIterable<Buffer>, reading: Omit<Reading, 'ways'>): Promise<Conclusion> {
    this.#readings += 1
    return readOnce(body, this.#message, this.#envelope, { ways: this.#ways, ...reading })
  }
}

interface Reading {
  readonly ways: Ways
  /** False where the content has gone to the sink before. */
  readonly delivers: boolean
  readonly known: Hindsight
  readonly asked: Hindsight
}

async function readOnce(
  body: AsyncIterable<Buffer>,
  reception: Reception,
  envelope: Envelope,
  { ways, delivers, known, asked }: Reading,
): Promise<Conclusion> {
  const source = new ByteSource(stoppable(gathered(body), ways.stopped))
  const { effort } = ways
  const headers = new HeaderFields(reception.headers)
  const outermost: StreamedEntity = { headers, head: Buffer.alloc(0), body: source }
  const innermost = (entity: StreamedEntity, isSigned: boolean): Promise<Conclusion> => {
    const micAlgorithm = isSigned ? null : digestOfReceipt(envelope.receiptRequest)
    const { maxContentBytes } = reception
    return deliver(entity, { micAlgorithm, maxContentBytes, outlet: delivers ? ways.outlet : null })
  }
  const expansion = { isEnough: false }
  const pass = { reception, known, asked, effort, expansion, innermost }
  return settled(source, openLayers(outermost, NO_LAYERS, pass))
}

/** The same chunks, until the promise rejects. */
async function* stoppable(chunks: AsyncIterable<Buffer>, stopped: Promise<never>): AsyncGenerator<Buffer> {
  let isStopped = false
  stopped.catch(() => (isStopped = true))
  for await (const chunk of chunks) {
    if (isStopped) await stopped
    yield chunk
  }
}

interface Delivery {
  readonly micAlgorithm: ReturnType<typeof digestOfReceipt> | null
  readonly maxContentBytes: number
  readonly outlet: Outlet | null
}

/** Hands the content of the innermost entity on, as far as it is allowed. */
async function deliver(entity: StreamedEntity, delivery: Delivery): Promise<Conclusion> {
  const { headers, head, body } = entity
  const { micAlgorithm, maxContentBytes, outlet } = delivery
  const hash = micAlgorithm === null ? null : createHash(DIGESTS[micAlgorithm].node).update(head)
  const decoder = decoderFor(headers.get('content-transfer-encoding'))
  const attachments = AttachmentList.of(contentTypeOf(headers))
  let sizeBytes = 0
  const take = async (bytes: Buffer): Promise<void> => {
    sizeBytes += bytes.length
    attachments?.write(bytes)
    if (bytes.length > 0 && sizeBytes <= maxContentBytes) await outlet?.write(bytes)
  }
  outlet?.open()
  for await (const chunk of body) {
    hash?.update(chunk)
    await take(decoder.write(chunk))
  }
  await take(decoder.end())
  const listed = attachments?.end() ?? null
  const mic = (): Mic => {
    if (hash === null || micAlgorithm === null) throw new Error('The MIC is that of the signature')
    return micOfDigest(micAlgorithm, hash.digest())
  }
  return () => ({ headers, sizeBytes, attachments: listed, mic })
}
