import type { Pool, QueryConfig } from 'pg'
import { reasonOf } from '../../runtime/errors.ts'

export type Liveness = { readonly up: true } | { readonly up: false; readonly reason: string }

/** The driver knows a limit of time for one statement; its types do not. */
type BoundedQuery = QueryConfig & { readonly query_timeout: number }

/**
 * Asks the database whether it answers, one question at a time: who asks while one is open shares its answer. So a
 * database that hangs costs one connection, however many ask. One that was asked in vain is closed, not kept.
 */
export class LivenessCheck {
  readonly #pool: Pool
  readonly #question: BoundedQuery
  #open: Promise<Liveness> | null = null

  /** @param limitMs how long a statement may take; a connection has the time limit of the pool. */
  constructor(pool: Pool, limitMs: number) {
    this.#pool = pool
    this.#question = { text: 'select 1', query_timeout: limitMs }
  }

  ask(): Promise<Liveness> {
    this.#open ??= this.#ask().finally(() => {
      this.#open = null
    })
    return this.#open
  }

  async #ask(): Promise<Liveness> {
    try {
      await this.#pool.query(this.#question)
      return { up: true }
    } catch (thrown) {
      return { up: false, reason: reasonOf(thrown) }
    }
  }
}
