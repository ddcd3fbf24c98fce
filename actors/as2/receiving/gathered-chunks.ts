/** A buffer of its own costs some hundred bytes beside what is in it: more than a chunk that is smaller may cost. */
const SMALL_BYTES = 4 * 1024
/** Small chunks are gathered up to this size; so much of each connection is in memory that nobody else counts. */
const BLOCK_BYTES = 16 * 1024

/**
 * The same bytes in chunks that are worth a buffer each, however small the segments are that a sender sends. A chunk that
 * is large, or has no other small one beside it, is passed on as it is: so is the body of nearly every message.
 */
export class GatheredChunks {
  readonly #source: () => Promise<Buffer | null>
  /** What came behind the chunk that was passed on. */
  #ahead: Buffer | null = null

  /** `source`: answers the next chunk, null at the end and after it. */
  constructor(source: () => Promise<Buffer | null>) {
    this.#source = source
  }

  /** Null at the end. */
  async next(): Promise<Buffer | null> {
    const first = this.#ahead ?? (await this.#source())
    this.#ahead = null
    if (first === null || first.length >= SMALL_BYTES) return first
    const second = await this.#source()
    if (second === null || second.length >= SMALL_BYTES) {
      this.#ahead = second
      return first
    }
    return this.#gather(first, second)
  }

  async #gather(first: Buffer, second: Buffer): Promise<Buffer> {
    const block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    let bytes = first.copy(block)
    let chunk: Buffer | null = second
    while (chunk !== null && chunk.length < SMALL_BYTES && bytes + chunk.length <= BLOCK_BYTES) {
      bytes += chunk.copy(block, bytes)
      chunk = await this.#source()
    }
    this.#ahead = chunk
    return ownBuffer(block.subarray(0, bytes))
  }
}

/** The chunk, copied if it is less than half of the buffer that it lies in, which it would keep in memory. */
export function ownBuffer(chunk: Buffer): Buffer {
  if (chunk.buffer.byteLength <= 2 * chunk.length) return chunk
  const own = Buffer.allocUnsafeSlow(chunk.length)
  chunk.copy(own)
  return own
}
