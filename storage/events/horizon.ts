import type { Pool } from 'pg'
import { query } from '../postgres/pool.ts'
import { missingIds } from './history-lines.ts'

export interface Look {
  /** The last id that was handed out, whether its line is committed, will be or never was. */
  readonly handedOut: number
  /** Every line with this id or a smaller one that will ever exist is there to be read. */
  readonly final: number
}

/** So many ids back a transaction may hold one when the first look is taken. */
const FURTHEST_BACK = 100_000

/** Ids are handed out again that were final already: the database is one that has lost its last transactions. */
export class HistoryWentBack extends Error {
  override readonly name = 'HistoryWentBack'
  override readonly message = 'The database has lost lines of the history that were read before'
}

/**
 * Tells up to which id the history is final (see the migration 009-events). Ids that a transaction holds are waited for
 * until it ends, by looking whether it is still there; transactions that begin meanwhile do not lengthen that.
 */
export class Horizon {
  readonly #pool: Pool
  /** Null before the first look. */
  #final: number | null = null
  /** When all of these transactions have ended, the history is final up to that id. */
  #awaited: { readonly upTo: number; readonly writers: ReadonlySet<string> } | null = null

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** Whether ids were handed out that are not final yet. */
  get isWaiting(): boolean {
    return this.#awaited !== null
  }

  /** Throws HistoryWentBack. */
  async look(): Promise<Look> {
    const known = this.#awaited === null ? this.#final : null
    const [row] = await query<{ handed_out: number; writers: string[] | null }>(
      this.#pool,
      'select handed_out, writers from history_horizon($1)',
      [known],
      'history-horizon',
    )
    if (row === undefined) throw new Error('The horizon of the history is not told')
    const { handed_out: handedOut, writers } = row
    if (this.#final !== null && handedOut < this.#final) throw new HistoryWentBack()
    if (writers !== null) this.#judge(handedOut, new Set(writers))
    this.#final ??= await this.#beginning(handedOut)
    return { handedOut, final: this.#final }
  }

  #judge(handedOut: number, writers: ReadonlySet<string>): void {
    if (writers.size === 0) {
      this.#final = handedOut
      this.#awaited = null
      return
    }
    const awaited = this.#awaited
    const left = awaited?.writers.intersection(writers) ?? new Set()
    if (awaited !== null && left.size > 0) {
      this.#awaited = { upTo: awaited.upTo, writers: left }
      return
    }
    if (awaited !== null) this.#final = awaited.upTo
    this.#awaited = { upTo: handedOut, writers }
  }

  /** Where the first look finds ids that are held: all before the first that has no line. */
  async #beginning(handedOut: number): Promise<number> {
    const [first] = await missingIds(this.#pool, Math.max(0, handedOut - FURTHEST_BACK), handedOut, 1)
    return first === undefined ? handedOut : first - 1
  }
}
