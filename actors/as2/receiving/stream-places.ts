/**
 * Messages that stream at the same time: further ones are told to come again. Each holds some chunks on each step of its
 * way, about 2 MB, and where the store is a bucket up to six parts of 8 MiB.
 */
const MAX_STREAMS = 16
/** Of one pair: whoever writes its names in a header can take no more from the others. */
const MAX_OF_PAIR = 12
/** Of who is no partner, beside those of partners. */
const MAX_OF_STRANGERS = 4

/** What a sender must at least send where others wait for its place. */
const CROWDED_BYTES_PER_SECOND = 64 * 1024

/** The place of one message. */
export interface StreamPlace {
  /** What its sender is asked for while there is no other place for the next one; null while there is. */
  readonly leastBytesPerSecond: () => number | null
  readonly release: () => void
}

/** Places for messages that are read as they come in: a message is there for as long as its sender takes. */
export class StreamPlaces {
  readonly #ofPairs = new Map<string, number>()
  #partners = 0
  #strangers = 0

  /** Null: there is none. `pair`: what names the pair; null for who is no partner. */
  take(pair: string | null): StreamPlace | null {
    if (pair === null) return this.#takeStranger()
    if (this.#isFull(pair)) return null
    this.#count(pair, 1)
    return {
      leastBytesPerSecond: () => (this.#isFull(pair) ? CROWDED_BYTES_PER_SECOND : null),
      release: () => this.#count(pair, -1),
    }
  }

  #takeStranger(): StreamPlace | null {
    if (this.#strangers >= MAX_OF_STRANGERS) return null
    this.#strangers += 1
    return {
      leastBytesPerSecond: () => (this.#strangers >= MAX_OF_STRANGERS ? CROWDED_BYTES_PER_SECOND : null),
      release: () => void (this.#strangers -= 1),
    }
  }

  #isFull(pair: string): boolean {
    return this.#partners >= MAX_STREAMS || (this.#ofPairs.get(pair) ?? 0) >= MAX_OF_PAIR
  }

  #count(pair: string, change: 1 | -1): void {
    this.#partners += change
    const ofPair = (this.#ofPairs.get(pair) ?? 0) + change
    if (ofPair === 0) this.#ofPairs.delete(pair)
    else this.#ofPairs.set(pair, ofPair)
  }
}
