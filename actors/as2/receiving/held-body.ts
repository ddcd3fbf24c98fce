import { IN_MEMORY_BYTES } from '../protocol/stream/limits.ts'
import { ownBuffer } from './gathered-chunks.ts'
import type { RequestBody } from './request-body.ts'

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

/** The body of one request in memory, if it is small enough, within the budget of all. */
export class HeldBody {
  readonly #budget: MemoryBudget
  #heldBytes = 0

  constructor(budget: MemoryBudget) {
    this.#budget = budget
  }

  /** `large`: it is to be read from where it is as it comes; nothing of it is held then. */
  async read(body: RequestBody): Promise<Buffer | 'large' | 'no room'> {
    if ((body.announcedBytes ?? 0) > IN_MEMORY_BYTES) return 'large'
    const chunks: Buffer[] = []
    for (let chunk = await body.next(); chunk !== null; chunk = await body.next()) {
      // Of a body none of whose chunks is small, so that what is taken of the budget is what it has of the memory.
      chunks.push(ownBuffer(chunk))
      if (this.#heldBytes + chunk.length > IN_MEMORY_BYTES) {
        body.unread(chunks)
        this.release()
        return 'large'
      }
      if (!this.#budget.take(chunk.length)) return 'no room'
      this.#heldBytes += chunk.length
    }
    const [only] = chunks
    return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, this.#heldBytes)
  }

  /** Gives its bytes back; to be called when the body is not needed any more. */
  release(): void {
    this.#budget.give(this.#heldBytes)
    this.#heldBytes = 0
  }
}
