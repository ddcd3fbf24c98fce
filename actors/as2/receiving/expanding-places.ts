/** Small messages that expand to large ones at the same time; their bodies are here, and wait in line. */
const MAX_EXPANDING = 4
/** Of one pair: whoever writes its names in a header leaves half of the places to the others. */
const MAX_OF_PAIR = 2
/** Those in line, which hold their bodies and their connections. */
const MAX_WAITING = 64
const MAX_WAITING_OF_PAIR = 24

interface Waiting {
  readonly pair: string
  readonly begin: () => void
}

/** Places for messages that are here and expand to more than should lie in memory. */
export class ExpandingPlaces {
  readonly #atWork: string[] = []
  readonly #waiting: Waiting[] = []

  /** Does the work in a place of its own. `no room`: so many wait that it was not done. */
  async within(pair: string, work: () => Promise<void>): Promise<'done' | 'no room'> {
    if (!this.#hasPlace(pair)) {
      const ofPair = this.#waiting.filter((each) => each.pair === pair).length
      if (this.#waiting.length >= MAX_WAITING || ofPair >= MAX_WAITING_OF_PAIR) return 'no room'
      await new Promise<void>((begin) => this.#waiting.push({ pair, begin }))
    } else {
      this.#atWork.push(pair)
    }
    try {
      await work()
      return 'done'
    } finally {
      this.#atWork.splice(this.#atWork.indexOf(pair), 1)
      this.#callNext()
    }
  }

  #hasPlace(pair: string): boolean {
    const ofPair = this.#atWork.filter((each) => each === pair).length
    return this.#atWork.length < MAX_EXPANDING && ofPair < MAX_OF_PAIR
  }

  /** The first in line whose pair has a place; it is taken for it before it begins. */
  #callNext(): void {
    const at = this.#waiting.findIndex(({ pair }) => this.#hasPlace(pair))
    const [next] = at < 0 ? [] : this.#waiting.splice(at, 1)
    if (next === undefined) return
    this.#atWork.push(next.pair)
    next.begin()
  }
}
