/** At most so often is a condition told. */
const PAUSE_MS = 250
const MAX_LENGTH = 500

/**
 * Tells why an instance takes nothing in, by its own word: each change once, at most four a second, and the last one
 * always.
 */
export class Condition {
  readonly #tell: (text: string | null) => void
  #told: string | null = null
  #wanted: string | null = null
  #isPausing = false

  constructor(tell: (text: string | null) => void) {
    this.#tell = tell
  }

  note(text: string | null): void {
    this.#wanted = text?.slice(0, MAX_LENGTH) ?? null
    if (!this.#isPausing) this.#flush()
  }

  #flush(): void {
    if (this.#wanted === this.#told) return
    this.#told = this.#wanted
    this.#tell(this.#told)
    this.#isPausing = true
    setTimeout(() => {
      this.#isPausing = false
      this.#flush()
    }, PAUSE_MS).unref()
  }
}
