import type { Clock } from './clock.ts'
import { reasonOf } from './errors.ts'
import type { Log } from './log.ts'

export interface RoundsOptions {
  /** As the log names it. */
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  /** How long to wait after a round that failed. */
  readonly pauseAfterFailureMs: number
  /** One round of the work. Answers how long to wait for the next. */
  readonly round: () => Promise<number>
}

/** Work in rounds, one after the other. A round that fails is logged, and the next one tries again. */
export class Rounds {
  readonly #options: RoundsOptions
  readonly #stopping = new AbortController()
  readonly #working: Promise<void>
  /** Cuts the pause in hand short. */
  #pause = new AbortController()
  #isWoken = false
  /** Why the last round failed; null when it did not. */
  #failure: string | null = null

  private constructor(options: RoundsOptions) {
    this.#options = options
    this.#working = this.#work()
  }

  static start(options: RoundsOptions): Rounds {
    return new Rounds(options)
  }

  /** The next round follows without a pause. It begins after this call, also when one is in hand. */
  wake(): void {
    this.#isWoken = true
    this.#pause.abort()
  }

  /** Resolves when the round in hand is over. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#pause.abort()
    await this.#working
  }

  async #work(): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      this.#isWoken = false
      const pauseMs = await this.#round()
      if (pauseMs <= 0 || this.#isWoken || signal.aborted) continue
      this.#pause = new AbortController()
      await clock.sleep(pauseMs, this.#pause.signal).catch(() => undefined)
    }
  }

  /** A failure that lasts is told once, and its end too. */
  async #round(): Promise<number> {
    const { name, log, round, pauseAfterFailureMs } = this.#options
    try {
      const pauseMs = await round()
      if (this.#failure !== null) log.info({ rounds: name }, 'Works again')
      this.#failure = null
      return pauseMs
    } catch (error) {
      const reason = reasonOf(error)
      if (reason !== this.#failure && !this.#stopping.signal.aborted)
        log.error({ rounds: name, reason }, 'A round failed')
      log.debug({ rounds: name, err: error }, 'A round failed')
      this.#failure = reason
      return pauseAfterFailureMs
    }
  }
}
