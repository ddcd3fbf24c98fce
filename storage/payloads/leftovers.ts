import type { Pool } from 'pg'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { query, execute } from '../postgres/pool.ts'
import type { PayloadStore } from './store.ts'

/**
 * Removal of what was stored for nothing: payloads of messages that were never committed, because the process was killed
 * or lost its database, and what writes left that were cut off.
 *
 * Only the database tells what is for nothing, and for how long: what no message is recorded for is noted with the time of
 * the database, and removed when it was noted a day ago and still has none. A source stores a payload and commits its
 * message soon after; a message that is not committed within a day of its first sighting never is, as every source gives up
 * long before. No clock but that of the database is asked, so none that jumps removes anything.
 */
const ABANDONED_AFTER_SECONDS = 24 * 3600

/** Names that are looked at in one round. */
const BATCH = 500
/** Between the rounds of one pass, so that it takes no more than a small part of store and database. */
const ROUND_PAUSE_MS = 1_000
const PASS_PAUSE_MS = 3_600_000
/** Nothing waits for it. */
const FAILURE_PAUSE_MS = 60_000
/** A name that is not seen for so long was removed by somebody else, or committed after all. */
const FORGET_AFTER_DAYS = 7

export interface LeftoverSweepOptions {
  readonly pool: Pool
  readonly store: PayloadStore
  readonly log: Pick<Log, 'warn'>
  /** Default: a day. */
  readonly abandonedAfterSeconds?: number
}

/** One pass after the other through all that is stored; a round of it is bounded. */
export class LeftoverSweep {
  readonly #pool: Pool
  readonly #store: PayloadStore
  readonly #log: Pick<Log, 'warn'>
  readonly #abandonedAfterSeconds: number
  #pass: Pass | null = null

  constructor({ pool, store, log, abandonedAfterSeconds = ABANDONED_AFTER_SECONDS }: LeftoverSweepOptions) {
    this.#pool = pool
    this.#store = store
    this.#log = log
    this.#abandonedAfterSeconds = abandonedAfterSeconds
  }

  /** One round; answers the milliseconds until the next. After a failure, which is logged, the pass begins anew. */
  async round(): Promise<number> {
    const pass = (this.#pass ??= startPass(this.#store))
    try {
      const batch = await take(pass.names, BATCH)
      if (batch.length > 0) await this.#judge(pass.kind, batch)
      if (batch.length === BATCH) return ROUND_PAUSE_MS
      if (pass.kind === 'message') {
        this.#pass = { kind: 'unfinished', names: this.#store.unfinished()[Symbol.asyncIterator]() }
        return ROUND_PAUSE_MS
      }
      this.#pass = null
      await execute(
        this.#pool,
        `delete from payload_leftover where seen_at < now() - $1 * interval '1 day'`,
        [FORGET_AFTER_DAYS],
      )
      return PASS_PAUSE_MS
    } catch (error) {
      this.#pass = null
      await pass.names.return?.().catch(() => undefined)
      this.#log.warn({ reason: reasonOf(error) }, 'What was stored for nothing cannot be removed now')
      return FAILURE_PAUSE_MS
    }
  }

  /** Ends a pass under way. */
  async stop(): Promise<void> {
    await this.#pass?.names.return?.()
    this.#pass = null
  }

  async #judge(kind: Kind, names: readonly string[]): Promise<void> {
    const statement = kind === 'message' ? NOTE_MESSAGES : NOTE_UNFINISHED
    const due = await query<{ name: string }>(this.#pool, statement, [names, this.#abandonedAfterSeconds])
    for (const { name } of due) {
      if (kind === 'message') await this.#store.delete(name)
      else await this.#store.discard(name)
      await execute(this.#pool, 'delete from payload_leftover where kind = $1 and name = $2', [kind, name])
    }
  }
}

type Kind = 'message' | 'unfinished'

interface Pass {
  readonly kind: Kind
  readonly names: AsyncIterator<string>
}

function startPass(store: PayloadStore): Pass {
  return { kind: 'message', names: store.messageIds()[Symbol.asyncIterator]() }
}

async function take(names: AsyncIterator<string>, limit: number): Promise<string[]> {
  const taken: string[] = []
  while (taken.length < limit) {
    const next = await names.next()
    if (next.done === true) break
    taken.push(next.value)
  }
  return taken
}

const noted = (kind: Kind, condition: string): string => `
with noted as (
  insert into payload_leftover (kind, name)
  select '${kind}', name from unnest($1::text[]) as n(name) ${condition}
  on conflict (kind, name) do update set seen_at = now()
  returning name, found_at
)
select name from noted where found_at <= now() - $2 * interval '1 second'`

const NOTE_MESSAGES = noted('message', 'where not exists (select from message m where m.id = n.name::uuid)')
const NOTE_UNFINISHED = noted('unfinished', '')
