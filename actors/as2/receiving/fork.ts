/** Chunks that one branch may be ahead of the other. */
const MAX_AHEAD = 4

/**
 * One source for several readers, which each get every chunk: as fast as the slowest of them reads, and without holding
 * more than some chunks. A failure of the source reaches all.
 */
export class Fork {
  readonly #source: AsyncIterator<Buffer>
  readonly #branches: Branch[] = []
  #pulling = false
  #ended = false
  #failure: { readonly thrown: unknown } | null = null

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** To be called for all readers before the first of them reads. */
  branch(): Branch {
    const branch = new Branch(this)
    this.#branches.push(branch)
    return branch
  }

  /** Breaks off for all readers, unless something else did before. */
  fail(thrown: unknown): void {
    this.#failure ??= { thrown }
    this.wake()
  }

  /** @throws what it broke off with, if it did */
  check(): void {
    if (this.#failure !== null) throw this.#failure.thrown
  }

  get ended(): boolean {
    return this.#ended
  }

  /** To be called by a branch that has nothing left. */
  pull(): void {
    if (this.#pulling || this.#branches.some(({ isFull }) => isFull)) return
    this.#pulling = true
    void this.#pull()
  }

  async #pull(): Promise<void> {
    try {
      const { done, value } = await this.#source.next()
      if (done === true) this.#ended = true
      else for (const branch of this.#branches) branch.take(value)
    } catch (thrown) {
      this.#failure ??= { thrown }
    }
    this.#pulling = false
    this.wake()
  }

  wake(): void {
    for (const branch of this.#branches) branch.wake()
  }
}

/** What one reader gets; whoever does not read it must close it. */
export class Branch implements AsyncIterable<Buffer> {
  readonly #fork: Fork
  readonly #chunks: Buffer[] = []
  #closed = false
  #wake: (() => void) | null = null

  constructor(fork: Fork) {
    this.#fork = fork
  }

  get isFull(): boolean {
    return this.#chunks.length >= MAX_AHEAD
  }

  take(chunk: Buffer): void {
    if (!this.#closed) this.#chunks.push(chunk)
  }

  wake(): void {
    this.#wake?.()
    this.#wake = null
  }

  close(): void {
    this.#closed = true
    this.#chunks.length = 0
    this.#fork.wake()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    try {
      for (;;) {
        this.#fork.check()
        const chunk = this.#chunks.shift()
        if (chunk !== undefined) {
          // The others may have waited for the room.
          this.#fork.wake()
          yield chunk
        } else if (this.#fork.ended) {
          return
        } else {
          const woken = new Promise<void>((resolve) => (this.#wake = resolve))
          this.#fork.pull()
          await woken
        }
      }
    } finally {
      this.close()
    }
  }
}
