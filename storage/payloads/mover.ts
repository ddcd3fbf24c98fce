import type { Pool } from 'pg'
import type { PayloadStage } from '../exchange/states.ts'
import { execute, query, transaction } from '../postgres/pool.ts'
import type { PayloadStore } from './store.ts'

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
  return transaction(pool, async (client) => {
    const rows = await query<JournalRow>(client, TAKE, [limit], 'journal_take')
    if (rows.length === 0) return 0
    await store.putMany(rows.map(({ message_id, stage, bytes }) => ({ messageId: message_id, stage, bytes })))
    const ids = rows.map(({ message_id }) => message_id)
    const stages = rows.map(({ stage }) => stage)
    return execute(client, REMOVE, [ids, stages], 'journal_remove')
  })
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

/** One round of moving; answers the milliseconds until the next. */
export async function moverRound(pool: Pool, store: PayloadStore): Promise<number> {
  return (await moveBatch(pool, store, { limit: BATCH })) === BATCH ? 0 : IDLE_MS
}
