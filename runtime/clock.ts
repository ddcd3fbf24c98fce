import { setTimeout as sleepFor } from 'node:timers/promises'

/** Time, so that tests can move it. Durations are milliseconds. */
export interface Clock {
  readonly now: () => Date
  /** Resolves after `durationMs`; rejects with an AbortError when the signal fires first. */
  readonly sleep: (durationMs: number, signal?: AbortSignal) => Promise<void>
  /** Runs `action` once after `durationMs`; the answer cancels it. */
  readonly after: (durationMs: number, action: () => void) => () => void
}

export const systemClock: Clock = {
  now: () => new Date(),
  sleep: (durationMs, signal) => sleepFor(durationMs, undefined, signal === undefined ? {} : { signal }),
  after: (durationMs, action) => {
    const timer = setTimeout(action, durationMs)
    return () => clearTimeout(timer)
  },
}
