import type { Clock } from '../../runtime/clock.ts'

/** A clock that stands still until the test moves it. */
export class ManualClock implements Clock {
  #nowMs = Date.UTC(2026, 0, 1)
  #timers: { readonly dueMs: number; readonly action: () => void }[] = []

  readonly now = (): Date => new Date(this.#nowMs)

  readonly after = (durationMs: number, action: () => void): (() => void) => {
    const timer = { dueMs: this.#nowMs + durationMs, action }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer)
    }
  }

  readonly sleep = (durationMs: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.after(durationMs, resolve)
    return promise
  }

  get timers(): number {
    return this.#timers.length
  }

  /** Runs what is due on the way, in its order. */
  advance(durationMs: number): void {
    const end = this.#nowMs + durationMs
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.dueMs - b.dueMs)[0]
      if (next === undefined || next.dueMs > end) break
      this.#timers = this.#timers.filter((each) => each !== next)
      this.#nowMs = Math.max(this.#nowMs, next.dueMs)
      next.action()
    }
    this.#nowMs = end
  }

  /** The machine was asleep: time has passed, and timers that are overdue run once. */
  jump(durationMs: number): void {
    this.#nowMs += durationMs
    const overdue = this.#timers.filter(({ dueMs }) => dueMs <= this.#nowMs)
    this.#timers = this.#timers.filter(({ dueMs }) => dueMs > this.#nowMs)
    for (const { action } of overdue) action()
  }
}
