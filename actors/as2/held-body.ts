import type { IncomingMessage } from 'node:http'

/** Bytes that may be held at the same time, by all together. */
export class MemoryBudget {
  #left: number

  constructor(bytes: number) {
    this.#left = bytes
  }

  /** False when there is no room: nothing is taken then. */
  take(bytes: number): boolean {
    if (bytes > this.#left) return false
    this.#left -= bytes
    return true
  }

  give(bytes: number): void {
    this.#left += bytes
  }
}

/** The connection ended before the message did. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/** Whether a request says itself that it is larger than allowed. */
export function tooLarge(request: IncomingMessage, maxBytes: number): boolean {
  return Number(request.headers['content-length'] ?? 0) > maxBytes
}

/** The body of one request in memory, within its own limit and the budget of all. */
export class HeldBody {
  readonly #budget: MemoryBudget
  readonly #maxBytes: number
  #heldBytes = 0

  constructor(budget: MemoryBudget, maxBytes: number) {
    this.#budget = budget
    this.#maxBytes = maxBytes
  }

  async read(request: IncomingMessage): Promise<Buffer | 'too large' | 'no room'> {
    if (tooLarge(request, this.#maxBytes)) return 'too large'
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        if (this.#heldBytes + chunk.length > this.#maxBytes) return 'too large'
        if (!this.#budget.take(chunk.length)) return 'no room'
        this.#heldBytes += chunk.length
        chunks.push(chunk)
      }
    } catch (error) {
      throw new ClientGone('The connection ended before the message', { cause: error })
    }
    const [only] = chunks
    return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, this.#heldBytes)
  }

  /** Gives its bytes back; to be called once, when the body is not needed any more. */
  release(): void {
    this.#budget.give(this.#heldBytes)
    this.#heldBytes = 0
  }
}
