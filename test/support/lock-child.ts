import { reasonOf } from '../../runtime/errors.ts'
import { openDataDirectory } from '../../storage/data-directory/data-directory.ts'

/** A process that locks the data directory of its first argument, says how it went, and holds it until it is killed. */
const outcome = await openDataDirectory(process.argv[2] ?? '').then(() => 'locked', reasonOf)
process.stdout.write(`${outcome}\n`)
if (outcome === 'locked') setInterval(() => undefined, 60_000)
