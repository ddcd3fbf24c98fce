import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { Rounds } from '../../runtime/rounds.ts'
import { execute } from '../postgres/pool.ts'

/** One record is written at most so often, however often it is used. */
const WRITE_EVERY_MS = 60_000
const ROUND_MS = 1_000
const PAUSE_AFTER_FAILURE_MS = 5_000

interface Use {
  usedAt: Date
  /** What is stored already; null for nothing of this process. */
  writtenAt: Date | null
}

interface Kind {
  readonly table: 'api_token' | 'service_account'
  readonly uses: Map<number, Use>
}

/**
 * When tokens and accounts were last used. It is noted in memory and written in the background, all that is due in one
 * statement; `stop` writes the rest. What a killed process had noted within the last minute is lost.
 */
export class LastUse {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #log: Log
  readonly #tokens: Kind = { table: 'api_token', uses: new Map() }
  readonly #accounts: Kind = { table: 'service_account', uses: new Map() }
  readonly #rounds: Rounds

  constructor(options: { readonly pool: Pool; readonly clock: Clock; readonly log: Log }) {
    const { pool, clock, log } = options
    this.#pool = pool
    this.#clock = clock
    this.#log = log
    this.#rounds = Rounds.start({
      name: 'last use',
      clock,
      log,
      pauseAfterFailureMs: PAUSE_AFTER_FAILURE_MS,
      round: async () => {
        await this.#write((use) => this.#isDue(use))
        return ROUND_MS
      },
    })
  }

  note({ accountId, tokenId }: { readonly accountId: number; readonly tokenId?: number }): void {
    const now = this.#clock.now()
    noteIn(this.#accounts, accountId, now)
    if (tokenId !== undefined) noteIn(this.#tokens, tokenId, now)
  }

  ofToken(id: number, stored: Date | null): Date | null {
    return later(this.#tokens.uses.get(id)?.usedAt, stored)
  }

  ofAccount(id: number, stored: Date | null): Date | null {
    return later(this.#accounts.uses.get(id)?.usedAt, stored)
  }

  /** Writes what is not written yet. Without a database it is lost, and the process ends none the less. */
  async stop(): Promise<void> {
    await this.#rounds.stop()
    await this.#write(() => true).catch((thrown: unknown) => {
      this.#log.warn({ reason: reasonOf(thrown) }, 'The last uses of tokens and accounts are not stored')
    })
  }

  #isDue({ writtenAt }: Use): boolean {
    return writtenAt === null || this.#clock.now().getTime() - writtenAt.getTime() >= WRITE_EVERY_MS
  }

  async #write(wanted: (use: Use) => boolean): Promise<void> {
    for (const kind of [this.#tokens, this.#accounts]) await this.#writeKind(kind, wanted)
  }

  async #writeKind({ table, uses }: Kind, wanted: (use: Use) => boolean): Promise<void> {
    const due = [...uses].filter(([, use]) => wanted(use))
    // What is written and was not used since for so long needs no place in memory.
    const idle = due.filter(([, { usedAt, writtenAt }]) => usedAt.getTime() === writtenAt?.getTime())
    for (const [id] of idle) uses.delete(id)
    const unwritten = due.filter(([id]) => uses.has(id)).map(([id, use]) => ({ id, use, at: use.usedAt }))
    if (unwritten.length === 0) return
    const values = [unwritten.map(({ id }) => id), unwritten.map(({ at }) => at)]
    await execute(this.#pool, statementFor(table), values, `${table} last use`)
    for (const { use, at } of unwritten) use.writtenAt = at
  }
}

function noteIn({ uses }: Kind, id: number, now: Date): void {
  const use = uses.get(id)
  if (use === undefined) uses.set(id, { usedAt: now, writtenAt: null })
  else use.usedAt = now
}

function later(noted: Date | undefined, stored: Date | null): Date | null {
  if (noted === undefined) return stored
  return stored !== null && stored.getTime() > noted.getTime() ? stored : noted
}

/** Rows are locked in the order of their ids: two nodes that write the same ones do not wait for each other in a ring. */
function statementFor(table: Kind['table']): string {
  return `
    with used as (
      select t.id, u.at from ${table} t join unnest($1::int[], $2::timestamptz[]) as u(id, at) on u.id = t.id
      order by t.id for no key update of t
    )
    update ${table} t set last_used_at = u.at from used u
    where t.id = u.id and (t.last_used_at is null or t.last_used_at < u.at)`
}
