import { systemClock, type Clock } from '../../runtime/clock.ts'

export interface MovableClock extends Clock {
  /** From now on it is so much later; what sleeps is not woken. */
  readonly advance: (durationMs: number) => void
}

/** The time of the system, which a test moves on. One that stands still moves by the test alone. */
export function movableClock({ standsStill = false } = {}): MovableClock {
  const startMs = Date.now()
  let aheadMs = 0
  return {
    ...systemClock,
    now: () => new Date((standsStill ? startMs : Date.now()) + aheadMs),
    advance: (durationMs) => {
      aheadMs += durationMs
    },
  }
}
