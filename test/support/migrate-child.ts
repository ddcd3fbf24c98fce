import { createLog } from '../../runtime/log.ts'
import { reasonOf } from '../../runtime/errors.ts'
import { migrate } from '../../storage/postgres/migrate.ts'

/** A process that migrates the database of its first argument and says how it went. */
const outcome = await migrate({ url: process.argv[2] ?? '', log: createLog('silent') }).then(
  () => 'migrated',
  reasonOf,
)
process.stdout.write(`${outcome}\n`)
