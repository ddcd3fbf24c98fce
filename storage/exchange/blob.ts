/**
 * Many byte strings in one statement parameter. An array of bytea travels as hexadecimal text, twice the size and
 * parsed on both sides; one bytea travels as it is, and the statement cuts it by offset and length.
 */
export interface Slice {
  /** Counted from 1, as SQL's `substring` does. */
  readonly start: number
  readonly length: number
}

export class BlobBuilder {
  readonly #parts: Buffer[] = []
  #length = 0

  add(bytes: Buffer): Slice {
    const slice = { start: this.#length + 1, length: bytes.length }
    this.#parts.push(bytes)
    this.#length += bytes.length
    return slice
  }

  build(): Buffer {
    const [only] = this.#parts
    return this.#parts.length === 1 && only !== undefined ? only : Buffer.concat(this.#parts, this.#length)
  }
}
