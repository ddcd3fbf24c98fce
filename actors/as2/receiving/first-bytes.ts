/** What is kept of the body of a message whose pair has no profiles: it is opened by nobody. */
export const STRANGER_BYTES = 4 * 1024 * 1024

/** The beginning of a body; what comes after it is not read. */
export class FirstBytes implements AsyncIterable<Buffer> {
  readonly #body: AsyncIterable<Buffer>
  readonly #limitBytes: number
  #isCut = false

  constructor(body: AsyncIterable<Buffer>, limitBytes: number) {
    this.#body = body
    this.#limitBytes = limitBytes
  }

  /** Whether there was more; known at the end. */
  get isCut(): boolean {
    return this.#isCut
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    let left = this.#limitBytes
    for await (const chunk of this.#body) {
      this.#isCut = chunk.length > left
      if (left > 0) yield chunk.subarray(0, left)
      left -= chunk.length
      if (this.#isCut) return
    }
  }
}
