/** Where the content of a message goes while it is opened. */

/** Takes content. The content ends only when the message is found in order, and breaks off with an error when it is not. */
export type Sink = (content: AsyncIterable<Buffer>) => Promise<void>

/** Chunks that may wait for the sink. */
const MAX_WAITING = 4

/** The sink itself failed: nothing is wrong with the message. */
export class SinkFailure extends Error {
  override readonly name = 'SinkFailure'
}

/** Hands content to a sink, as fast as that takes it, and holds its end back until it is told. */
export class Outlet {
  readonly #sink: Sink
  readonly #failed: (failure: SinkFailure) => void
  readonly #chunks: Buffer[] = []
  #taking: Promise<void> | null = null
  #ending: { readonly refusal: { readonly thrown: unknown } | null } | null = null
  #failure: SinkFailure | null = null
  /** The sink has settled: nothing more is taken. */
  #closed = false
  #wakeTaker: (() => void) | null = null
  #wakeWriter: (() => void) | null = null

  /** `failed` is told at once when the sink fails, also between two writes. */
  constructor(sink: Sink, failed: (failure: SinkFailure) => void) {
    this.#sink = sink
    this.#failed = failed
  }

  /** To be called before the first write. */
  open(): void {
    this.#taking = this.#sink(this.#content())
      .catch((thrown: unknown) => {
        if (this.#ending !== null && this.#ending.refusal !== null) return
        this.#failure = new SinkFailure('the content cannot be handed on', { cause: thrown })
        this.#failed(this.#failure)
      })
      .finally(() => {
        this.#closed = true
        this.#wakeWriter?.()
      })
  }

  /** @throws SinkFailure */
  async write(chunk: Buffer): Promise<void> {
    this.#chunks.push(chunk)
    this.#wakeTaker?.()
    while (this.#chunks.length >= MAX_WAITING && !this.#closed) {
      await new Promise<void>((resolve) => (this.#wakeWriter = resolve))
    }
    if (this.#failure !== null) throw this.#failure
    if (this.#closed) this.#chunks.length = 0
  }

  /** Ends the content and waits until the sink is done. @throws SinkFailure */
  async end(): Promise<void> {
    await this.#finish(null)
    if (this.#failure !== null) throw this.#failure
  }

  /** Breaks the content off, and waits until the sink is done with it. */
  async refuse(thrown: unknown): Promise<void> {
    await this.#finish({ thrown })
  }

  async #finish(refusal: { readonly thrown: unknown } | null): Promise<void> {
    this.#ending ??= { refusal }
    this.#wakeTaker?.()
    await this.#taking
  }

  async *#content(): AsyncGenerator<Buffer> {
    for (;;) {
      // What was refused is not even handed on.
      if (this.#ending !== null && this.#ending.refusal !== null) throw this.#ending.refusal.thrown
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) {
        this.#wakeWriter?.()
        yield chunk
      } else if (this.#ending !== null) {
        return
      } else {
        await new Promise<void>((resolve) => (this.#wakeTaker = resolve))
      }
    }
  }
}
