import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'

/** So many troubles are remembered; more of them at one time are summed up in one line. */
const MAX_TOLD = 10_000

/**
 * What is wrong with single files, told once a path and reason and not in every round. What was not met again in a
 * whole round is over and forgotten: should it come back, it is told again.
 */
export class Warnings {
  readonly #log: Log
  readonly #told = new Set<string>()
  readonly #met = new Set<string>()
  #overflowed = false

  constructor(log: Log) {
    this.#log = log
  }

  warn(path: string, reason: unknown, message: string): void {
    this.#tell('warn', path, reason, message)
  }

  error(path: string, reason: unknown, message: string): void {
    this.#tell('error', path, reason, message)
  }

  /** Every file was looked at. */
  endRound(): void {
    for (const key of this.#told) if (!this.#met.has(key)) this.#told.delete(key)
    this.#met.clear()
    if (this.#told.size < MAX_TOLD) this.#overflowed = false
  }

  #tell(level: 'warn' | 'error', path: string, reason: unknown, message: string): void {
    const code = codeOf(reason)
    const key = JSON.stringify([message, path, code])
    if (this.#told.has(key)) {
      this.#met.add(key)
    } else if (this.#told.size < MAX_TOLD) {
      this.#told.add(key)
      this.#met.add(key)
      this.#log[level](reason instanceof Error ? { path, code, reason: reasonOf(reason) } : { path }, message)
    } else if (!this.#overflowed) {
      this.#overflowed = true
      this.#log[level]('more files are in trouble than can be told one by one')
    }
  }
}

/** The system's code, of the error or of what caused it; else the message, which may name something new each time. */
function codeOf(reason: unknown): string {
  for (let error = reason; error instanceof Error; error = error.cause) {
    if ('code' in error && typeof error.code === 'string') return error.code
  }
  return reason instanceof Error ? reason.message : ''
}
