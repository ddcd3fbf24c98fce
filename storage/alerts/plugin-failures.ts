import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { Rounds } from '../../runtime/rounds.ts'
import type { PluginFailedAlert } from '../../runtime/supervisor/service-instance.ts'
import { isUnavailable } from '../postgres/unavailable.ts'
import { raisePluginFailed, type PluginFailure } from './raise-plugin-failed.ts'

/** Failures that wait for the database at most; an instance that fails again and again must not fill memory. */
const MOST_WAITING = 1_000
const PAUSE_AFTER_FAILURE_MS = 1_000
/** Nothing waits: whoever notes a failure wakes the round. */
const IDLE_MS = 600_000
/** Whoever waits for the record of a failure waits no longer. */
const RECORD_LIMIT_MS = 5_000

export interface PluginFailuresOptions {
  readonly pool: Pool
  readonly log: Log
  readonly clock: Clock
  /** Name of this node. */
  readonly node: string
}

/**
 * Raises the alert `plugin_failed` for what the supervisor tells of. Its word comes without waiting, and the database
 * may be away just then: a failure is kept until it can be raised, with the time at which it happened, and is raised
 * once, also when the answer to the statement was lost.
 */
export class PluginFailures {
  readonly #options: PluginFailuresOptions
  readonly #rounds: Rounds
  /** Oldest first. One that is being raised stays until it has been. */
  readonly #pending: PluginFailure[] = []
  /** Told after the next attempt, whatever came of it. */
  #waiting: (() => void)[] = []

  constructor(options: PluginFailuresOptions) {
    this.#options = options
    const { clock, log } = options
    this.#rounds = Rounds.start({
      name: 'plugin failures',
      clock,
      log,
      pauseAfterFailureMs: PAUSE_AFTER_FAILURE_MS,
      round: () => this.#round(),
    })
  }

  /** Takes a failure to be raised. */
  note({ type, name, reason, retries }: PluginFailedAlert): void {
    const { clock, log, node } = this.#options
    if (this.#pending.length >= MOST_WAITING) {
      log.error({ type, name }, 'the alert of a failed instance is dropped: too many wait for the database')
      return
    }
    this.#pending.push({ type, name, reason: storable(reason), retries, node, at: clock.now() })
    this.#rounds.wake()
  }

  /**
   * Resolves when all that was noted is raised, so that whoever is told of a failure finds its alert. When the database
   * does not take it, it resolves all the same, soon: the alert is raised later.
   */
  async recorded(): Promise<void> {
    if (this.#pending.length === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    const cancel = this.#options.clock.after(RECORD_LIMIT_MS, resolve)
    await promise
    cancel()
  }

  /** What was noted last is raised yet, if the database takes it at once. */
  async stop(): Promise<void> {
    await this.recorded()
    await this.#rounds.stop()
    for (const { type, name } of this.#pending.splice(0)) {
      this.#options.log.error({ type, name }, 'the alert of a failed instance was not raised')
    }
  }

  async #round(): Promise<number> {
    try {
      for (let next = this.#pending[0]; next !== undefined; next = this.#pending[0]) {
        await this.#raise(next)
        this.#pending.shift()
      }
    } finally {
      const waiting = this.#waiting
      this.#waiting = []
      for (const resolve of waiting) resolve()
    }
    return IDLE_MS
  }

  /** An outage is waited out; one that the database will never take must not stand in the way of the others. */
  async #raise(failure: PluginFailure): Promise<void> {
    const { pool, log } = this.#options
    try {
      await raisePluginFailed(pool, failure)
    } catch (error) {
      if (isUnavailable(error)) throw error
      const { type, name } = failure
      log.error({ type, name, reason: reasonOf(error) }, 'the alert of a failed instance is not taken')
    }
  }
}

/** A reason may have anything in it; the database takes no NUL. */
function storable(reason: string): string {
  return reason.replaceAll('\0', ' ')
}
