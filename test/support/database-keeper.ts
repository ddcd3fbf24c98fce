import { readdir, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createLog } from '../../runtime/log.ts'
import { openDataDirectory } from '../../storage/data-directory/data-directory.ts'
import { startEmbedded } from '../../storage/postgres/embedded.ts'
import { endOrphans } from '../../storage/postgres/embedded/postmaster.ts'
import { migrate } from '../../storage/postgres/migrate.ts'
import { StorageError } from '../../storage/storage-error.ts'
import { keeperPlace } from './database-server.ts'

/** The process that keeps the test database while somebody leases it (database-server.ts). */

/** How long the server waits for the next test file after the last lease ended. */
const LINGER_MS = 5_000

const place = keeperPlace()
const log = createLog('info')
const lock = await openDataDirectory(place.directory).catch((thrown: unknown) => {
  // Another keeper starts or ends: whoever started us asks again.
  if (thrown instanceof StorageError) process.exit(0)
  throw thrown
})

// What a killed keeper left: nobody needs it, so it is not recovered.
const cluster = join(place.directory, 'postgresql')
await endOrphans(cluster, log)
await Promise.all([cluster, place.socket].map((path) => rm(path, { recursive: true, force: true })))

const server = await startEmbedded({
  directory: place.directory,
  log,
  onExit: (reason) => {
    log.error({ reason }, 'The test database ended')
    process.exit(1)
  },
  // The files are thrown away after the run: a crash of the machine need not be survived.
  settings: {
    fsync: 'off',
    full_page_writes: 'off',
    shared_buffers: '64MB',
    max_connections: '300',
    // It would now and then be connected to the template, and no copy can be made meanwhile.
    autovacuum: 'off',
  },
})
await migrate({ url: server.url, log })

const leases = new Set<Socket>()
const gate = createServer({ allowHalfOpen: true }, admit).listen(place.socket)
let linger = setTimeout(end, LINGER_MS)
process.once('SIGTERM', end)

function admit(socket: Socket): void {
  clearTimeout(linger)
  leases.add(socket)
  let endNow = false
  createInterface({ input: socket }).on('line', (line) => (endNow = line === 'end'))
  socket.on('error', () => giveUp(socket, endNow))
  socket.on('end', () => giveUp(socket, endNow))
  socket.write(`${JSON.stringify({ url: server.url, superuserUrl: server.superuserUrl })}\n`)
}

function giveUp(socket: Socket, endNow: boolean): void {
  if (!leases.delete(socket)) return
  const last = leases.size === 0
  // Who asked for the end sees it: our exit closes the connection.
  if (!(last && endNow)) socket.destroy()
  if (!last) return
  clearTimeout(linger)
  linger = setTimeout(end, endNow ? 0 : LINGER_MS)
}

function end(): void {
  clearTimeout(linger)
  // From here on a newcomer starts its own keeper, which waits for our lock.
  gate.close()
  void server
    .stop()
    .then(empty)
    .then(() => lock.release())
    .finally(() => process.exit(0))
}

/** Before the lock is given back, and without the lock itself: what is there afterwards may be the next keeper's. */
async function empty(): Promise<void> {
  const names = (await readdir(place.directory)).filter((name) => !name.startsWith('waybill.'))
  await Promise.all(names.map((name) => rm(join(place.directory, name), { recursive: true, force: true })))
}
