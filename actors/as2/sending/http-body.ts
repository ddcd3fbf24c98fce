import type { ClientRequest } from 'node:http'
import { release } from '../protocol/stream/release.ts'

/** A body in memory is handed to the connection in such parts, and each of them must be taken in time. */
const PART_BYTES = 64 * 1024

/** A body that is longer than memory. */
export interface StreamedBody {
  /** Gives it from its beginning. It has not been sent whole unless it ends without an error. */
  readonly open: () => AsyncIterable<Buffer>
  /** In bytes; null when nobody knows it: it then goes by chunked transfer. */
  readonly length: number | null
  /** Whether the server is asked by the headers alone first, so that it can refuse. */
  readonly asksFirst: boolean
  /** Whether nobody else holds its chunks, so that their memory may be given back when they are sent. */
  readonly disposable: boolean
}

/** Is told how the body goes on. */
export interface Progress {
  /** The next part is being made: what takes long now is not the server's fault. */
  readonly reading: () => void
  /** The server is to take so many bytes. */
  readonly offered: () => void
  readonly taken: (bytes: number) => void
}

/** The wait for a server that is asked whether it wants a body. */
export interface Question {
  /** When it is reached. */
  readonly connected: Promise<void>
  readonly waitMs: number
  /** Called when it has said nothing. */
  readonly silent: () => void
}

/** The headers that say where a body ends; never both (RFC 9112 §6.2). */
export function framing(body: Buffer | StreamedBody): readonly [string, string] {
  return body.length === null ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(body.length)]
}

/** Hands a body to a request as fast as the server takes it. */
export class BodyWriter {
  readonly #request: ClientRequest
  readonly #progress: Progress
  #stopped = false
  #failure: unknown = null
  #wake: () => void = () => undefined

  constructor(request: ClientRequest, progress: Progress) {
    this.#request = request
    this.#progress = progress
    const wake = (): void => this.#wake()
    request.on('drain', wake)
    request.on('close', wake)
  }

  /** Why the body could not be made, with which the request has ended; null as long as it could. */
  get failure(): unknown {
    return this.#failure
  }

  /** Nothing more of it is sent: the server has said what it wants to say. */
  stop(): void {
    this.#stopped = true
    this.#wake()
  }

  write(body: Buffer | StreamedBody): void {
    if (Buffer.isBuffer(body)) this.#writeBytes(body, 0)
    else void this.#writeChunks(body)
  }

  /** Writes the body when the server asks for it, or has been silent for a while after it was reached. */
  writeWhenWanted(body: StreamedBody, { connected, waitMs, silent }: Question): void {
    const request = this.#request
    let begun = false
    let wait: NodeJS.Timeout | undefined
    const begin = (): void => {
      clearTimeout(wait)
      if (begun || this.#stopped) return
      begun = true
      this.write(body)
    }
    const give = (): void => {
      if (begun || request.destroyed) return
      silent()
      begin()
    }
    request.on('continue', begin)
    // One that is no refusal, or this had been stopped: some begin their answer before they have taken the message.
    request.on('response', begin)
    request.on('close', () => clearTimeout(wait))
    request.flushHeaders()
    const startWait = (): void => void (wait = setTimeout(give, waitMs))
    void connected.then(startWait)
  }

  #writeBytes(body: Buffer, from: number): void {
    let at = from
    this.#progress.offered()
    while (at < body.length - PART_BYTES) {
      if (this.#stopped) return
      const part = body.subarray(at, at + PART_BYTES)
      at += PART_BYTES
      const taken = this.#request.write(part)
      this.#progress.taken(part.length)
      if (!taken) {
        this.#wake = () => {
          this.#wake = () => undefined
          if (!this.#request.destroyed) this.#writeBytes(body, at)
        }
        return
      }
    }
    this.#request.end(body.subarray(at))
  }

  async #writeChunks({ open, disposable }: StreamedBody): Promise<void> {
    const request = this.#request
    const isOver = (): boolean => this.#stopped || request.destroyed
    try {
      this.#progress.reading()
      for await (const chunk of open()) {
        if (isOver()) return
        this.#progress.offered()
        const bytes = chunk.length
        const isTaken = request.write(chunk, () => disposable && release(chunk))
        if (!isTaken) await this.#drained()
        if (isOver()) return
        this.#progress.taken(bytes)
        this.#progress.reading()
      }
      this.#progress.offered()
      if (!isOver()) request.end()
    } catch (thrown) {
      // What was sent has no end, so that nobody takes it for the whole.
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      this.#failure = error
      request.destroy(error)
    }
  }

  /** Until the connection takes more, or is of no more use. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }
}
