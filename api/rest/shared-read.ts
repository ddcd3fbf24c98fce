import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** From the beginning of one read to that of the next at least. */
const BETWEEN_READS_MS = 1

/**
 * One read for all who ask at the same time. Each gets a value that was read after it asked, never one that was being
 * read already, so that nobody sees the past; and one read at a time runs, however many ask.
 */
export class SharedRead<T> {
  readonly #read: () => Promise<T>
  #running: Promise<unknown> = Promise.resolve()
  #beganAtMs = 0
  #next: Promise<T> | undefined

  constructor(read: () => Promise<T>) {
    this.#read = read
  }

  current(): Promise<T> {
    return (this.#next ??= this.#start())
  }

  async #start(): Promise<T> {
    // Whoever asks in the same turn of the event loop takes part, and while the one before still runs.
    await Promise.all([nextTurn(), this.#running.catch(() => undefined)])
    // One that would follow at once waits a moment for company: under load it is a read for ten who ask, not for three.
    if (performance.now() - this.#beganAtMs < BETWEEN_READS_MS) await sleep(BETWEEN_READS_MS)
    this.#next = undefined
    this.#beganAtMs = performance.now()
    const value = this.#read()
    this.#running = value
    return value
  }
}
