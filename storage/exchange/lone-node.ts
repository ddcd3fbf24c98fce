import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { query } from '../postgres/pool.ts'
import { StorageError } from '../storage-error.ts'

/** The server has noticed by then that a machine which died is gone (see the settings of connections in pool.ts). */
const PATIENCE_MS = 25_000
const LOOK_MS = 500

/** The name of the one connection that a process has for as long as it runs; it names the node to all others. */
export function presenceOf(nodeId: string): string {
  return `waybill node ${nodeId}`
}

/**
 * Refuses to run beside a process with the same data directory, which the lock of the directory does not see when it was
 * copied to another machine: each of the two would take the work of the other for its own, left behind by a crash.
 * Throws a StorageError.
 */
export async function refuseTwin(
  pool: Pool,
  { nodeId, clock, patienceMs = PATIENCE_MS }: { nodeId: string; clock: Clock; patienceMs?: number },
): Promise<void> {
  const until = performance.now() + patienceMs
  while (await isPresent(pool, nodeId)) {
    if (performance.now() > until) {
      throw new StorageError(
        'Another process with a copy of this data directory uses the same database. Each node needs a data directory ' +
          'of its own: remove the file node.id from the copy',
      )
    }
    await clock.sleep(LOOK_MS)
  }
}

async function isPresent(pool: Pool, nodeId: string): Promise<boolean> {
  const found = await query(
    pool,
    'select from pg_stat_activity where datname = current_database() and application_name = $1 limit 1',
    [presenceOf(nodeId)],
  )
  return found.length > 0
}
