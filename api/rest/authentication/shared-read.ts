import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * One read for all who ask at the same time. Each gets a value that was read after it asked, never one that was being
 * read already, so that nobody sees the past; and one read at a time runs, however many ask.
 */
export class SharedRead<T> {
  readonly #read: () => Promise<T>
  #running: Promise<unknown> = Promise.resolve()
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
    this.#next = undefined
    const value = this.#read()
    this.#running = value
    return value
  }
}
