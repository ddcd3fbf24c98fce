/**
 * Makes an AS2 message of any size in one pass, holding a few chunks of it: from the content outwards each layer is an
 * iterable over the one further in. The bytes are those of `composeMessage` from the same Randomness.
 */
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { DIGESTS } from '../algorithms.ts'
import type { DigestName, SigningDigest } from '../algorithms.ts'
import { Base64Encoder } from '../base64.ts'
import { COMPRESSED_DATA } from '../cms/compressed-data.ts'
import { deflateStream } from '../cms/deflate.ts'
import { startEnvelope } from '../cms/enveloped-data.ts'
import type { SealedEnvelope } from '../cms/enveloped-data.ts'
import { wrapOctetStream } from '../cms/octets.ts'
import { checkOutgoing, receiptDigest, signingOf, transportHeaders } from '../compose.ts'
import type { OutgoingFacts } from '../outgoing.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { contentEncoding, contentHeaders, micRule, smimeHeaders } from '../layers.ts'
import type { SmimeLayer } from '../layers.ts'
import { MAKING } from '../making.ts'
import type { Making } from '../making.ts'
import { micOfDigest } from '../mic.ts'
import type { Mic } from '../mic.ts'
import { formatEntity } from '../mime.ts'
import { startMultipartSigned } from '../multipart-signed.ts'
import type { PartSigning } from '../multipart-signed.ts'
import { gathered } from './gather.ts'
import { CHUNK_BYTES } from './limits.ts'
import { release } from './release.ts'

type Chunks = AsyncIterable<Buffer>

export interface OutgoingStream extends OutgoingFacts {
  /** Read once. */
  readonly content: Chunks
  /** Whether nobody else holds its chunks, so that their memory may be given back as soon as they have passed. */
  readonly disposable?: boolean
  /** As in memory. Over a large message each more digest takes time. */
  readonly further?: readonly SigningDigest[]
}

/** What the receipt of a message must show; see ComposedMessage. */
export interface Mics {
  readonly mic: Mic
  readonly alternativeMic: Mic | null
  readonly furtherMics: readonly Mic[]
}

export interface StreamedMessage {
  /** Without Content-Length and Transfer-Encoding, which belong to the transport. */
  readonly headers: HeaderList
  /** To be read once; nobody else holds its chunks, if this is so of the content. It fails as the content fails, and then ends nowhere near its end. */
  readonly body: Chunks
  /** Null until all chunks of the body are made, the last one included. */
  readonly mics: () => Mics | null
  readonly messageId: string
  readonly subject: string | null
}

/** An entity while layers are put around it. */
interface Layer {
  readonly headers: HeaderList
  readonly body: Chunks
}

/** @throws ComposeError when the message cannot be made as asked */
export function composeStream(outgoing: OutgoingStream, making: Making = MAKING): StreamedMessage {
  checkOutgoing(outgoing)
  const { signature, encryption, compression, transferEncoding = 'binary', disposable = false } = outgoing
  const digests = new Digests(outgoing)
  const smime = (kind: SmimeLayer, octets: Chunks): Layer => ({
    headers: smimeHeaders(kind, transferEncoding),
    body: transferEncoding === 'base64' ? inBase64(octets, true) : octets,
  })
  const compressed = (layer: Layer): Layer =>
    smime(
      'compressedData',
      wrapOctetStream(COMPRESSED_DATA, deflateStream(entityOf(layer)), making.limitBytes),
    )
  let layer = digests.ofContent(outgoing)
  if (compression === 'BeforeSigning') layer = compressed(layer)
  if (signature !== null) {
    layer = signed(digests.ofPart(entityOf(layer)), signingOf(outgoing, signature), digests, making)
  }
  if (compression === 'AfterSigning') layer = compressed(layer)
  if (encryption !== null) {
    const envelope = startEnvelope(encryption, making.randomness)
    const isOurs = disposable || compression !== 'None' || contentEncoding(outgoing) === 'base64'
    const octets = encipheredBy(envelope, entityOf(layer), isOurs)
    layer = smime(
      envelope.contentType,
      wrapOctetStream(envelope.wrapping(null), octets, making.limitBytes, () =>
        envelope.wrapping(envelope.mac()),
      ),
    )
  }
  return {
    headers: [...transportHeaders(outgoing), ...layer.headers],
    body: digests.toTheEnd(layer.body),
    mics: () => digests.mics,
    messageId: outgoing.messageId,
    subject: outgoing.subject === '' ? null : outgoing.subject,
  }
}

/** In one algorithm. */
interface Running {
  readonly algorithm: DigestName
  readonly mic: Hash
  readonly alternative: Hash | null
}

/** The digests that the MICs are made of, taken while the bytes pass. */
class Digests {
  readonly #rule: ReturnType<typeof micRule>
  readonly #first: Running
  readonly #further: readonly Running[]
  #mics: Mics | null = null
  #partDigest: Buffer | null = null

  constructor(outgoing: OutgoingStream) {
    this.#rule = micRule(outgoing)
    const { alternative } = this.#rule
    const running = (algorithm: DigestName): Running => ({
      algorithm,
      mic: createHash(DIGESTS[algorithm].node),
      alternative: alternative ? createHash(DIGESTS[algorithm].node) : null,
    })
    this.#first = running(receiptDigest(outgoing))
    this.#further = (outgoing.further ?? []).map(running)
  }

  get mics(): Mics | null {
    return this.#mics
  }

  /** The innermost entity. */
  ofContent(outgoing: OutgoingStream): Layer {
    const { over } = this.#rule
    const headers = contentHeaders(outgoing)
    const { mics, alternatives } = this.#hashes()
    if (over === 'entity') for (const mic of mics) mic.update(formatEntity(headers, NOTHING))
    const content = alternatives.length === 0 ? outgoing.content : hashed(outgoing.content, alternatives)
    const body =
      contentEncoding(outgoing) === 'base64' ? inBase64(content, outgoing.disposable === true) : content
    return { headers, body: over === 'signed part' ? body : hashed(body, mics) }
  }

  ofPart(part: Chunks): Chunks {
    return hashed(part, this.#hashes().mics)
  }

  /** To be called when the part has passed. */
  endOfPart(): Buffer {
    this.#partDigest ??= this.#first.mic.digest()
    return this.#partDigest
  }

  /** The last chunk is handed over when the MICs are known: who has all of it can answer at once. */
  async *toTheEnd(body: Chunks): AsyncGenerator<Buffer> {
    let held: Buffer | null = null
    for await (const chunk of gathered(body)) {
      if (held !== null) yield held
      held = chunk
    }
    const { algorithm, alternative } = this.#first
    this.#mics = {
      mic: micOfDigest(algorithm, this.endOfPart()),
      alternativeMic: alternative === null ? null : micOfDigest(algorithm, alternative.digest()),
      furtherMics: this.#further.flatMap((further) =>
        [further.mic, further.alternative]
          .filter((hash) => hash !== null)
          .map((hash) => micOfDigest(further.algorithm, hash.digest())),
      ),
    }
    if (held !== null) yield held
  }

  #hashes(): { readonly mics: readonly Hash[]; readonly alternatives: readonly Hash[] } {
    const all = [this.#first, ...this.#further]
    return {
      mics: all.map(({ mic }) => mic),
      alternatives: all.map(({ alternative }) => alternative).filter((hash) => hash !== null),
    }
  }
}

const NOTHING = Buffer.alloc(0)
/** Memory in pieces of this size is given out again without the operating system. */
const CIPHER_BYTES = 2 * CHUNK_BYTES

async function* entityOf({ headers, body }: Layer): AsyncGenerator<Buffer> {
  yield formatEntity(headers, NOTHING)
  yield* body
}

function signed(part: Chunks, signing: PartSigning, digests: Digests, making: Making): Layer {
  const { headers, opening, close } = startMultipartSigned(signing, making)
  async function* body(): AsyncGenerator<Buffer> {
    yield opening
    yield* part
    yield await close(digests.endOfPart())
  }
  return { headers, body: body() }
}

/** With `isOurs`, nobody else holds the chunks. */
async function* encipheredBy(
  { cipher }: SealedEnvelope,
  source: Chunks,
  isOurs: boolean,
): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; at += CIPHER_BYTES) {
      yield cipher.update(chunk.subarray(at, at + CIPHER_BYTES))
    }
    if (isOurs) release(chunk)
  }
  yield cipher.final()
}

async function* hashed(source: Chunks, hashes: readonly Hash[]): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    for (const hash of hashes) hash.update(chunk)
    yield chunk
  }
}

async function* inBase64(source: Chunks, isOurs: boolean): AsyncGenerator<Buffer> {
  const encoder = new Base64Encoder()
  for await (const chunk of source) {
    yield encoder.update(chunk)
    if (isOurs) release(chunk)
  }
  yield encoder.final()
}
