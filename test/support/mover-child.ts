import { createLog } from '../../runtime/log.ts'
import { LocalStore } from '../../storage/payloads/local-store.ts'
import { moveBatch } from '../../storage/payloads/mover.ts'
import { openPool } from '../../storage/postgres/pool.ts'

/** A process that moves the journal of a database to a directory in small batches, and is killed meanwhile. */
const [url = '', directory = ''] = process.argv.slice(2)
const pool = openPool({ url, size: 1, applicationName: 'mover', log: createLog('silent') })
const store = await LocalStore.open(directory)
for (;;) {
  const moved = await moveBatch(pool, store, { limit: 7 })
  process.stdout.write(`${moved}\n`)
  if (moved === 0) break
}
await pool.end()
