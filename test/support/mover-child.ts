import { createLog } from '../../runtime/log.ts'
import { LocalStore } from '../../storage/payloads/local-store.ts'
import { moveBatch } from '../../storage/payloads/mover.ts'
import { openPool } from '../../storage/postgres/pool.ts'

/** A process that moves so many small batches of a database's journal to a directory, and is killed meanwhile. */
const [url = '', directory = '', batches = ''] = process.argv.slice(2)
const pool = openPool({ url, size: 1, applicationName: 'mover', log: createLog('silent') })
const store = await LocalStore.open(directory)
for (let batch = 0; batch < Number(batches); batch += 1) {
  const moved = await moveBatch(pool, store, { limit: 7 })
  process.stdout.write(`${moved}\n`)
}
await pool.end()
