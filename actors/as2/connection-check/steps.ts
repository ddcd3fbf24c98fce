/** What a step has found out, in words and for the next one. */
export interface Found<T> {
  readonly detail: string
  readonly value: T
}

/** Why a step failed, in an operator's words. */
export class Problem extends Error {
  override readonly name = 'Problem'
}

export const STEPS = ['certificates', 'resolve', 'connect', 'tls', 'http'] as const
export type StepName = (typeof STEPS)[number]

export interface StepResult {
  readonly name: StepName
  /** Null: not reached. */
  readonly ok: boolean | null
  readonly elapsed_ms: number
  readonly detail: string
}

export interface ConnectionCheck {
  readonly ok: boolean
  /** All of STEPS, in their order. */
  readonly steps: readonly StepResult[]
  /** What failed; null when nothing did. */
  readonly problem: string | null
}

/** Writes down how the steps of a check end. */
export class StepLog {
  readonly #results = new Map<StepName, StepResult>()

  /** Runs a step. Throws what it throws, which is a Problem where it failed in order. */
  async run<T>(name: StepName, step: () => Promise<Found<T>>): Promise<T> {
    const begin = performance.now()
    const end = (ok: boolean, detail: string): void => {
      this.#results.set(name, { name, ok, elapsed_ms: Math.round(performance.now() - begin), detail })
    }
    try {
      const { detail, value } = await step()
      end(true, detail)
      return value
    } catch (error) {
      if (error instanceof Problem) end(false, error.message)
      throw error
    }
  }

  /** A later step has shown that this one failed after all; the later one was not reached then. */
  revoke(name: StepName, later: StepName, problem: string): void {
    const { elapsed_ms = 0 } = this.#results.get(name) ?? {}
    this.#results.set(name, { name, ok: false, elapsed_ms, detail: problem })
    this.#results.delete(later)
  }

  result(): ConnectionCheck {
    const steps = STEPS.map(
      (name) => this.#results.get(name) ?? { name, ok: null, elapsed_ms: 0, detail: 'not reached' },
    )
    const failed = steps.find(({ ok }) => ok === false)
    const problem = failed === undefined ? null : `${failed.name}: ${failed.detail}`
    return { ok: failed === undefined, steps, problem }
  }
}

/** How long the wait of a step may be; it ends early when nobody wants the result any more. */
export class Bounds {
  readonly #limitMs: number
  readonly #deadline: number
  readonly #signal: AbortSignal

  /** `deadline` is the end of the whole check, in the time of `performance.now()`. */
  constructor(bounds: { readonly limitMs: number; readonly deadline: number; readonly signal: AbortSignal }) {
    this.#limitMs = bounds.limitMs
    this.#deadline = bounds.deadline
    this.#signal = bounds.signal
  }

  atMost(limitMs: number): Bounds {
    return new Bounds({
      limitMs: Math.min(limitMs, this.#limitMs),
      deadline: this.#deadline,
      signal: this.#signal,
    })
  }

  /** Waits for what `begin` starts. `late` is said when the time is over, with the time. */
  async within<T>(
    late: string,
    begin: (settle: (value: T) => void, fail: (problem: Error) => void) => void,
  ): Promise<T> {
    this.#signal.throwIfAborted()
    const limitMs = Math.max(0, Math.min(this.#limitMs, this.#deadline - performance.now()))
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const timer = setTimeout(() => reject(new Late(`${late} (waited ${inSeconds(limitMs)} s)`)), limitMs)
    const abort = (): void => reject(abortReason(this.#signal))
    this.#signal.addEventListener('abort', abort, { once: true })
    try {
      begin(resolve, reject)
      return await promise
    } finally {
      clearTimeout(timer)
      this.#signal.removeEventListener('abort', abort)
    }
  }

  /** Whether a failure of `within` says that the time was over. */
  isOver(error: unknown): boolean {
    return error instanceof Late
  }
}

class Late extends Problem {}

function inSeconds(ms: number): number {
  return Math.round(ms / 100) / 10
}

function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason
  return reason instanceof Error ? reason : new Error('The check was aborted', { cause: reason })
}
