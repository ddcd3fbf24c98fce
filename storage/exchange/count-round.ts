import type { Pool } from 'pg'
import { query, transaction } from '../postgres/pool.ts'

/** Noted changes that one round folds: enough for any busy second. */
const FOLD_BATCH = 20_000
const ROUND_MS = 1_000

/**
 * One round of folding the noted changes of messages into the counts that lists are answered from. Rows that nobody
 * folds cost every list some time and nothing else. Answers the milliseconds until the next round.
 */
export async function countRound(pool: Pool): Promise<number> {
  const [noted] = await query<{ exists: boolean }>(pool, 'select exists (select from message_change)')
  if (noted?.exists !== true) return ROUND_MS
  const folded = await transaction(pool, async (client) => {
    // After millions of messages came at once, as from a backup, all of them are counted anew.
    await client.query('set local statement_timeout = 0')
    const [row] = await query<{ folded: number }>(client, 'select fold_message_changes($1) as folded', [
      FOLD_BATCH,
    ])
    return row?.folded ?? 0
  })
  return folded === FOLD_BATCH ? 0 : ROUND_MS
}
