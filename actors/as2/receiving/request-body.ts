import type { IncomingMessage } from 'node:http'
import { GatheredChunks } from './gathered-chunks.ts'

/** A partner that sends less than this in the long run would hold a place for ever. */
const LEAST_BYTES_PER_SECOND = 8 * 1024
/** So long a sender may be silent, or slow, before its rate is looked at. */
const WINDOW_MS = 30_000

/** After an answer that comes before the end of its request. */
const LINGER_MS = 5_000
const LINGER_BYTES = 64 * 1024 * 1024

/** The connection ended before the message did. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/** More bytes came than are allowed. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge'
}

/** The message comes in too slowly. */
export class BodyTooSlow extends Error {
  override readonly name = 'BodyTooSlow'
}

/** The length that a request names itself, or null. */
function announcedBytes(request: IncomingMessage): number | null {
  const length = request.headers['content-length']
  return length === undefined ? null : Number(length)
}

/** Whether a request says itself that it is larger than allowed. */
export function tooLarge(request: IncomingMessage, maxBytes: number): boolean {
  return (announcedBytes(request) ?? 0) > maxBytes
}

export interface BodyOptions {
  readonly maxBytes: number
  /** Tells a sender that waits for it to send the body; null when it does not wait. */
  readonly begin: (() => void) | null
  /** Default 8 KiB a second, looked at after 30 seconds. */
  readonly leastBytesPerSecond?: number
  readonly windowMs?: number
}

/**
 * The body of a request as it comes in, within its limits. Only the time counts in which we wait for the sender, so that
 * nobody pays for our own slowness; so a request lasts no longer than its size at the least rate, whatever it sends.
 */
export class RequestBody implements AsyncIterable<Buffer> {
  readonly announcedBytes: number | null
  readonly #request: IncomingMessage
  readonly #limits: Required<Omit<BodyOptions, 'begin'>>
  #begin: (() => void) | null
  readonly #chunks: AsyncIterator<Buffer>
  readonly #gathered = new GatheredChunks(() => this.#receive())
  #unread: Buffer[] = []
  #takenBytes = 0
  #windowBytes = 0
  #waitedMs = 0
  #hurry: () => number | null = () => null

  constructor(request: IncomingMessage, { begin, ...limits }: BodyOptions) {
    this.announcedBytes = announcedBytes(request)
    this.#request = request
    this.#limits = { leastBytesPerSecond: LEAST_BYTES_PER_SECOND, windowMs: WINDOW_MS, ...limits }
    this.#begin = begin
    // Its `return` is never called: that would close the connection, and nothing could be answered.
    this.#chunks = (request as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  }

  /** @throws BodyTooLarge, BodyTooSlow, ClientGone */
  async next(): Promise<Buffer | null> {
    const unread = this.#unread.shift()
    return unread ?? this.#gathered.next()
  }

  /** From now on more is asked of the sender while this answers with a rate, in bytes a second. */
  demand(leastBytesPerSecond: () => number | null): void {
    this.#hurry = leastBytesPerSecond
  }

  /** Puts chunks back before the rest. */
  unread(chunks: readonly Buffer[]): void {
    this.#unread = [...chunks, ...this.#unread]
  }

  /** Whether nothing more comes on the connection for this request. */
  get complete(): boolean {
    const isChunked = this.#request.headers['transfer-encoding'] !== undefined
    return this.#request.complete || (!isChunked && (this.announcedBytes ?? 0) === 0)
  }

  /** Takes the rest and drops it; nothing is asked of a sender that was not told to begin. */
  async drain(): Promise<void> {
    if (this.#begin !== null) return
    while ((await this.next()) !== null);
  }

  /**
   * Takes some of the rest and drops it, once an answer was sent: of a connection that is closed while its other side
   * sends, that side may never read the answer.
   */
  async linger(): Promise<void> {
    if (this.#begin !== null) return
    let bytes = 0
    const late = Promise.withResolvers<null>()
    const timer = setTimeout(() => late.resolve(null), LINGER_MS)
    while (bytes < LINGER_BYTES) {
      const next = await Promise.race([this.#chunks.next(), late.promise]).catch(() => null)
      if (next === null || next.done === true) break
      bytes += next.value.length
    }
    clearTimeout(timer)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (let chunk = await this.next(); chunk !== null; chunk = await this.next()) yield chunk
  }

  async #receive(): Promise<Buffer | null> {
    const chunk = await this.#wait()
    if (chunk === null) return null
    this.#takenBytes += chunk.length
    this.#windowBytes += chunk.length
    if (this.#takenBytes > this.#limits.maxBytes) throw new BodyTooLarge('The message is too large')
    return chunk
  }

  async #wait(): Promise<Buffer | null> {
    this.#begin?.()
    this.#begin = null
    const { windowMs, leastBytesPerSecond } = this.#limits
    const next = this.#chunks.next()
    for (;;) {
      const began = performance.now()
      const late = Promise.withResolvers<'late'>()
      const timer = setTimeout(() => late.resolve('late'), Math.max(0, windowMs - this.#waitedMs))
      const result = await Promise.race([next, late.promise])
        .catch(gone)
        .finally(() => clearTimeout(timer))
      this.#waitedMs += performance.now() - began
      if (result !== 'late') return result.done === true ? null : result.value
      const least = Math.max(leastBytesPerSecond, this.#hurry() ?? 0)
      if (this.#windowBytes < (least * windowMs) / 1_000) {
        throw new BodyTooSlow('The message comes in too slowly')
      }
      this.#windowBytes = 0
      this.#waitedMs = 0
    }
  }
}

function gone(thrown: unknown): never {
  throw new ClientGone('The connection ended before the message', { cause: thrown })
}
