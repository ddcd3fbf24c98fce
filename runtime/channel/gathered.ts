/** How long names are gathered after one was told. */
const GATHER_MS = 100

/**
 * Tells a name at once, and once more after a short while when it was noted again meanwhile: however often it is noted,
 * it is told at most ten times a second, and what was noted last is always told.
 */
export class Gathered {
  readonly #tell: (name: string) => void
  readonly #again = new Map<string, boolean>()

  constructor(tell: (name: string) => void) {
    this.#tell = tell
  }

  note(name: string): void {
    if (this.#again.has(name)) {
      this.#again.set(name, true)
      return
    }
    this.#again.set(name, false)
    this.#tell(name)
    // It must not keep a thread alive: a name is a hint.
    setTimeout(() => this.#rest(name), GATHER_MS).unref()
  }

  #rest(name: string): void {
    const again = this.#again.get(name)
    this.#again.delete(name)
    if (again === true) this.note(name)
  }
}
