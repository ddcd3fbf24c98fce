/** An async iterable of buffers, to be read in the pieces that a parser needs. */
const EMPTY = Buffer.alloc(0)

/**
 * Reads bytes in order, without copying what lies in one chunk. It remembers when its origin failed, so that a reader
 * that fails itself can tell whose failure comes first: that of the origin.
 */
export class ByteSource {
  readonly #origin: AsyncIterator<Buffer>
  #chunk: Buffer = EMPTY
  #at = 0
  #position = 0
  #ended = false
  #failure: { readonly thrown: unknown } | null = null

  constructor(origin: AsyncIterable<Buffer>) {
    this.#origin = origin[Symbol.asyncIterator]()
  }

  /** Bytes taken so far. */
  get position(): number {
    return this.#position
  }

  /** Bytes that can be taken without waiting. */
  get buffered(): number {
    return this.#chunk.length - this.#at
  }

  /** Whether nothing comes behind what is buffered. */
  get ended(): boolean {
    return this.#ended
  }

  /** Whether the origin broke off with an error. */
  get failed(): boolean {
    return this.#failure !== null
  }

  /** @throws what the origin broke off with, if it did */
  check(): void {
    if (this.#failure !== null) throw this.#failure.thrown
  }

  /** Waits until so many bytes are buffered, or all that come. */
  async gather(bytes: number): Promise<void> {
    while (this.buffered < bytes && !this.#ended) {
      const next = await this.#pull()
      if (next === null) return
      const rest = this.#chunk.subarray(this.#at)
      this.#chunk = rest.length === 0 ? next : Buffer.concat([rest, next])
      this.#at = 0
    }
  }

  /** The buffered byte at an offset from the position. */
  peek(offset: number): number | undefined {
    return this.#chunk[this.#at + offset]
  }

  /** Takes at most so many of the buffered bytes. */
  take(maxBytes: number): Buffer {
    const end = Math.min(this.#chunk.length, this.#at + maxBytes)
    const taken = this.#chunk.subarray(this.#at, end)
    this.#at = end
    this.#position += taken.length
    return taken
  }

  /** Takes what comes next, at most so many bytes; null at the end. */
  async next(maxBytes = Infinity): Promise<Buffer | null> {
    if (this.buffered === 0) {
      const chunk = this.#ended ? null : await this.#pull()
      if (chunk === null) return null
      this.#chunk = chunk
      this.#at = 0
    }
    return this.take(maxBytes)
  }

  /** Puts bytes before the rest; they count as not taken. */
  unshift(bytes: Buffer): void {
    if (bytes.length === 0) return
    const rest = this.#chunk.subarray(this.#at)
    this.#chunk = rest.length === 0 ? bytes : Buffer.concat([bytes, rest])
    this.#at = 0
    this.#position -= bytes.length
  }

  /** Reads to the end. @throws what the origin broke off with, now or before */
  async drain(): Promise<void> {
    this.check()
    while ((await this.next()) !== null);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (let chunk = await this.next(); chunk !== null; chunk = await this.next()) yield chunk
  }

  /** Never an empty chunk. */
  async #pull(): Promise<Buffer | null> {
    try {
      for (;;) {
        const { done, value } = await this.#origin.next()
        if (done === true) break
        if (value.length > 0) return value
      }
    } catch (thrown) {
      this.#failure = { thrown }
      this.#ended = true
      throw thrown
    }
    this.#ended = true
    return null
  }
}
