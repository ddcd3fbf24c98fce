import type { Pool } from 'pg'
import { query } from '../postgres/pool.ts'

const BATCH = 10_000
const IDLE_MS = 5_000

/**
 * One round that folds what statements have noted about accepted messages into counts; answers the milliseconds until
 * the next. The stats are exact without it, but take longer with every note.
 */
export async function statsRound(pool: Pool): Promise<number> {
  const [round] = await query<{ folded: number }>(pool, 'select fold_acceptances($1) as folded', [BATCH])
  return round?.folded === BATCH ? 0 : IDLE_MS
}
