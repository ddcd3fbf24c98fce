import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/**
 * A process that stands still in the middle of an attempt to lock the data directory of its first argument: it keeps
 * others out, but does not hold it.
 */
const lock = new DatabaseSync(join(process.argv[2] ?? '', 'waybill.lock'))
lock.exec('begin; select count(*) from sqlite_schema')
process.stdout.write('trying\n')
setInterval(() => lock.isOpen, 60_000)
