/** Small pieces made into chunks worth handing on. */
import { CHUNK_BYTES } from './limits.ts'

/** A piece of so many bytes costs less as it is than copied. */
const LARGE_BYTES = CHUNK_BYTES / 8

const NOTHING: readonly Buffer[] = []

/** Copies small pieces together; large ones pass as they are. */
export class Gatherer {
  #held: Buffer | null = null
  #heldBytes = 0

  /** Takes a piece and gives what is to be handed on now, in order. */
  add(piece: Buffer): readonly Buffer[] {
    if (piece.length >= LARGE_BYTES) return [...this.end(), piece]
    this.#held ??= Buffer.allocUnsafeSlow(CHUNK_BYTES)
    this.#heldBytes += piece.copy(this.#held, this.#heldBytes)
    return this.#heldBytes > CHUNK_BYTES - LARGE_BYTES ? this.end() : NOTHING
  }

  /** What is left. */
  end(): readonly Buffer[] {
    if (this.#held === null) return NOTHING
    const left = this.#held.subarray(0, this.#heldBytes)
    this.#held = null
    this.#heldBytes = 0
    return left.length === 0 ? NOTHING : [left]
  }
}

/** The same bytes in chunks of a good size. */
export async function* gathered(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gatherer = new Gatherer()
  for await (const piece of pieces) for (const ready of gatherer.add(piece)) yield ready
  for (const left of gatherer.end()) yield left
}
