import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { Rounds } from '../../runtime/rounds.ts'
import type { HistoryLine } from '../exchange/messages.ts'
import { missingIds, readLines } from './history-lines.ts'
import { HistoryWentBack, Horizon, type Look } from './horizon.ts'
import { RecentLines, type LineBatch } from './recent-lines.ts'

export interface TailOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Log
  /** A line as readers get it; made once for all of them. */
  readonly encode: (line: HistoryLine) => string
  readonly limits?: Partial<TailLimits>
}

export interface TailLimits {
  readonly readers: number
  /** Of the lines that are held for readers that do not keep up. */
  readonly heldBytes: number
}

const LIMITS: TailLimits = { readers: 1_000, heldBytes: 8 * 1024 * 1024 }

/** Between looks while nothing happens. One look is a statement of about 0.1 ms. */
const IDLE_MS = 100
/** After lines were passed on: those of so long go out together, as one write a reader. */
const GATHERING_MS = 50
/** Between looks at transactions that hold ids: first, and doubled up to IDLE_MS. */
const FIRST_WAIT_MS = 5
const PAUSE_AFTER_FAILURE_MS = 500
const LINES_AT_ONCE = 1_000
const BETWEEN_PAGES_MS = 5
/** How long a reader that comes waits for the transactions of its moment. */
const JOIN_LIMIT_MS = 250
/** A reader that came while more ids than these were open gets what was committed among them as well. */
const MOST_OPEN_IDS = 10_000

/** What a reader that came has. */
export interface Membership {
  /** All lines up to this id are to be read from the history; later ones come from `following`. */
  readonly position: number
  /** The last id that was handed out when the reader came. */
  readonly handedOut: number
  /** Whether a line was committed after the reader came. */
  readonly isNew: (id: number) => boolean
  /** `missed`: the reader is too slow, or the database has lost lines. */
  readonly following: (position: number) => LineBatch | 'none' | 'missed'
  readonly leave: () => void
}

/**
 * Follows the history for everybody in the process who reads it: one statement a tenth of a second, and none while
 * nobody reads. It looks by itself, as a notification in the transactions that write would make their commits wait for
 * each other: eight connections that committed 1,400 times a second then did 500.
 */
export class HistoryTail {
  readonly #options: TailOptions
  readonly #limits: TailLimits
  #run: TailRun | null = null
  readonly #ending = new Set<Promise<void>>()
  #readers = 0

  constructor(options: TailOptions) {
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
  }

  get readers(): number {
    return this.#readers
  }

  /**
   * Lets a reader in; `wake` is called when there may be more for it. Throws TOO_BUSY, and what the database throws.
   */
  async join(wake: () => void): Promise<Membership> {
    if (this.#readers >= this.#limits.readers) {
      throw new WaybillError('TOO_BUSY', `At most ${this.#limits.readers} event streams are open at once`)
    }
    this.#readers += 1
    if (this.#run === null || this.#run.isBroken) {
      this.#run = new TailRun({ ...this.#options, heldBytes: this.#limits.heldBytes })
    }
    const run = this.#run
    run.wakers.add(wake)
    let isIn = true
    const leave = (): void => {
      if (!isIn) return
      isIn = false
      this.#readers -= 1
      run.wakers.delete(wake)
      if (run.wakers.size === 0) this.#end(run)
    }
    try {
      const beginning = await run.beginning()
      return { ...beginning, following: (position) => run.following(position), leave }
    } catch (thrown) {
      leave()
      throw thrown
    }
  }

  /** Looks at once. */
  wake(): void {
    this.#run?.wake()
  }

  /** Resolves when nothing of it is at the database any more. */
  async close(): Promise<void> {
    if (this.#run !== null) this.#end(this.#run)
    await Promise.all(this.#ending)
  }

  #end(run: TailRun): void {
    if (this.#run === run) this.#run = null
    const ended = run.stop().finally(() => this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}

type Beginning = Pick<Membership, 'position' | 'handedOut' | 'isNew'>

interface Newcomer {
  readonly deadline: number
  readonly resolve: (beginning: Beginning) => void
  readonly reject: (thrown: unknown) => void
  /** The last id that was handed out when it came. */
  handedOut: number | null
}

/** From the first reader to the last one's leaving. */
class TailRun {
  readonly wakers = new Set<() => void>()
  readonly #options: TailOptions & { readonly heldBytes: number }
  readonly #horizon: Horizon
  readonly #rounds: Rounds
  #recent: RecentLines | null = null
  #newcomers: Newcomer[] = []
  #waitMs = FIRST_WAIT_MS
  #isBroken = false

  constructor(options: TailOptions & { readonly heldBytes: number }) {
    const { pool, clock, log } = options
    this.#options = options
    this.#horizon = new Horizon(pool)
    this.#rounds = Rounds.start({
      name: 'events',
      clock,
      log,
      pauseAfterFailureMs: PAUSE_AFTER_FAILURE_MS,
      round: () => this.#round(),
    })
  }

  get isBroken(): boolean {
    return this.#isBroken
  }

  /** Where a reader that comes now begins: after all that is committed now. */
  beginning(): Promise<Beginning> {
    const { promise, resolve, reject } = Promise.withResolvers<Beginning>()
    this.#newcomers.push({ deadline: performance.now() + JOIN_LIMIT_MS, resolve, reject, handedOut: null })
    this.wake()
    return promise
  }

  following(position: number): LineBatch | 'none' | 'missed' {
    if (this.#isBroken) return 'missed'
    return this.#recent?.following(position) ?? 'none'
  }

  wake(): void {
    this.#rounds.wake()
  }

  async stop(): Promise<void> {
    await this.#rounds.stop()
    for (const { reject } of this.#newcomers) reject(new WaybillError('TOO_BUSY', 'The server stops'))
  }

  async #round(): Promise<number> {
    const newcomers = this.#newcomers
    this.#newcomers = []
    try {
      const look = await this.#horizon.look()
      const recent = (this.#recent ??= new RecentLines(look.final, this.#options.heldBytes))
      const hasMore = await this.#readUpTo(look.final, recent)
      await this.#admit(newcomers, look, recent)
      return this.#pauseAfter(hasMore)
    } catch (thrown) {
      for (const { reject } of newcomers) reject(thrown)
      if (thrown instanceof HistoryWentBack) this.#break()
      throw thrown
    }
  }

  /** Answers whether there were lines. */
  async #readUpTo(final: number, recent: RecentLines): Promise<boolean> {
    const { pool, clock, encode } = this.#options
    let hasLines = false
    while (recent.upTo < final) {
      const range = { after: recent.upTo, upTo: final, messageId: null }
      const lines = await readLines(pool, range, LINES_AT_ONCE)
      const upTo = lines.length < LINES_AT_ONCE ? final : (lines.at(-1)?.id ?? final)
      const encoded = lines.map((line) => ({ id: line.id, messageId: line.message_id, text: encode(line) }))
      recent.add(encoded, upTo)
      if (lines.length === 0) continue
      hasLines = true
      for (const wake of this.wakers) wake()
      // Readers that keep up take these before the next ones push them out.
      if (recent.upTo < final) await clock.sleep(BETWEEN_PAGES_MS)
    }
    return hasLines
  }

  #pauseAfter(hasLines: boolean): number {
    if (!this.#horizon.isWaiting) return hasLines ? GATHERING_MS : IDLE_MS
    if (hasLines) this.#waitMs = FIRST_WAIT_MS
    const pauseMs = hasLines ? GATHERING_MS : this.#waitMs
    this.#waitMs = Math.min(this.#waitMs * 2, IDLE_MS)
    return pauseMs
  }

  /** Newcomers begin when all is final that was handed out at their time, or soon, where a transaction takes long. */
  async #admit(newcomers: readonly Newcomer[], look: Look, recent: RecentLines): Promise<void> {
    const late: Newcomer[] = []
    for (const newcomer of newcomers) {
      newcomer.handedOut ??= look.handedOut
      const { handedOut, deadline, resolve } = newcomer
      if (handedOut <= recent.upTo) resolve({ position: recent.upTo, handedOut, isNew: () => true })
      else if (performance.now() < deadline) this.#newcomers.push(newcomer)
      else late.push(newcomer)
    }
    if (late.length === 0) return
    const position = recent.upTo
    const open = await missingIds(this.#options.pool, position, look.handedOut, MOST_OPEN_IDS + 1)
    const ids = open.length > MOST_OPEN_IDS ? null : new Set(open)
    const isNew = (id: number): boolean => id > look.handedOut || ids === null || ids.has(id)
    for (const { resolve } of late) resolve({ position, handedOut: look.handedOut, isNew })
  }

  /** The database is not the one any more that was read: every reader must begin anew. */
  #break(): void {
    this.#isBroken = true
    for (const wake of this.wakers) wake()
  }
}
