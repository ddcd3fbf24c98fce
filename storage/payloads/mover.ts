import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { PayloadStage } from '../exchange/states.ts'
import { execute, query, transaction } from '../postgres/pool.ts'
import { isStoreUnavailable } from '../storage-error.ts'
import type { PayloadItem, PayloadStore } from './store.ts'

interface JournalRow {
  readonly message_id: string
  readonly stage: PayloadStage
  readonly bytes: Buffer
}

/**
 * Moves up to `limit` stages from the journal to the store, oldest messages first, and answers how many. Rows are
 * locked while they are written, so that several movers share the work and a stage that is replaced meanwhile waits.
 * They leave the journal only after the store has them for good: a failure or a crash at any point leaves them there,
 * and the next batch writes them again.
 */
export async function moveBatch(
  pool: Pool,
  store: PayloadStore,
  { limit }: { readonly limit: number },
): Promise<number> {
  const { moved, failure } = await transaction(pool, async (client) => {
    const rows = await query<JournalRow>(client, TAKE, [limit], 'journal_take')
    if (rows.length === 0) return { moved: 0, failure: null }
    crashPoint('mover.locked')
    const items = rows.map(({ message_id, stage, bytes }) => ({ messageId: message_id, stage, bytes }))
    const { stored, failure: failed } = await putAll(store, items, AbortSignal.timeout(STORE_LIMIT_MS))
    crashPoint('mover.stored')
    const ids = stored.map(({ messageId }) => messageId)
    const stages = stored.map(({ stage }) => stage)
    const removed = await execute(client, REMOVE, [ids, stages], 'journal_remove')
    crashPoint('mover.journal-removed')
    return { moved: removed, failure: failed }
  })
  if (moved > 0) crashPoint('mover.committed')
  // What could be moved is, and the operator hears of the rest.
  if (failure !== null) throw failure
  return moved
}

interface Stored {
  readonly stored: readonly PayloadItem[]
  readonly failure: Error | null
}

/** At once; one by one where a single one is in the way: the others do not wait for it. */
async function putAll(
  store: PayloadStore,
  items: readonly PayloadItem[],
  signal: AbortSignal,
): Promise<Stored> {
  try {
    await store.putMany(items, signal)
    return { stored: items, failure: null }
  } catch (error) {
    if (isStoreUnavailable(error) || !(error instanceof Error)) throw error
    const stored: PayloadItem[] = []
    for (const item of items) {
      if (signal.aborted) break
      const isStored = await store.putMany([item], signal).then(
        () => true,
        () => false,
      )
      if (isStored) stored.push(item)
    }
    return { stored, failure: error }
  }
}

/** Message ids of version 7 grow with time: the primary key is the order of arrival. */
const TAKE = `
select message_id, stage, bytes from journal
order by message_id, stage limit $1
for update skip locked`

const REMOVE = `
delete from journal using unnest($1::uuid[], $2::text[]) as moved (message_id, stage)
where journal.message_id = moved.message_id and journal.stage = moved.stage`

/** Stages of one batch: at most 256 KiB each, they are held in memory. */
const BATCH = 200
const IDLE_MS = 500
/**
 * A store that answers later is given up: the server ends transactions that are idle for a minute, and what is written
 * after another mover took over could replace newer bytes.
 *
 * A request that was given up may still be carried out, by a service that stood still and goes on. Mostly that is no
 * harm: the journal keeps the stage, the same bytes are put again, and every stage but `receipt` has the same bytes for
 * ever. A receipt is replaced when a message is delivered again. If the put of the earlier one is carried out after that
 * of the later, the store holds the earlier: reading it is an error that names the message, never another receipt's
 * bytes, as its digest is not the recorded one; what the receipt said is in the message's record. No condition of S3
 * helps: the first put of a stage may itself be the late one. Waiting would have to last a quarter of an hour, for so
 * long a signed request is accepted.
 */
const STORE_LIMIT_MS = 45_000

/**
 * While messages come in, their senders wait for the same processors and the same disk, and nobody waits for the mover: it
 * then leaves alone what is fresh, which its target will mostly read in a moment, and works in few, larger batches.
 */
const FRESH_MS = 3_000
const BUSY_MS = 1_000

/** One round of moving; answers the milliseconds until the next. */
export async function moverRound(pool: Pool, store: PayloadStore): Promise<number> {
  const [ages] = await query<{ first_ms: number; last_ms: number }>(pool, AGES, [], 'journal_ages')
  if (ages === undefined || (ages.last_ms < BUSY_MS && ages.first_ms < FRESH_MS)) return IDLE_MS
  return (await moveBatch(pool, store, { limit: BATCH })) === BATCH ? 0 : IDLE_MS
}

/** How long ago the first and the last stage came that wait; nothing when none does. */
const AGES = `
select extract(epoch from now() - first.created_at)::float8 * 1000 as first_ms,
  extract(epoch from now() - last.created_at)::float8 * 1000 as last_ms
from (select created_at from journal order by message_id, stage limit 1) first
cross join (select created_at from journal order by message_id desc, stage desc limit 1) last`
