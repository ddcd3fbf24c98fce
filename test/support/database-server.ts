import { spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { plainNode } from './processes.ts'

/**
 * One embedded PostgreSQL for all test files of a run. A keeper process (database-keeper.ts) is started by the first
 * test that needs it; each test process holds a connection to the keeper as its lease, which the kernel closes
 * with the process. A keeper without leases ends the server, removes its files and exits; an empty lock file stays.
 */

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))
const MIGRATIONS = join(PROJECT, 'storage', 'migrations')
const START_LIMIT_MS = 180_000
const RETRY_MS = 50

/** What the keeper tells who leases. */
export interface TestServer {
  /** The migrated database, as the owner of the records. Never connect to it: it is the template. */
  readonly url: string
  readonly superuserUrl: string
}

/** Where the keeper of this checkout, user and schema works; a changed migration gets a server of its own. */
export function keeperPlace(): { readonly directory: string; readonly socket: string; readonly log: string } {
  const hash = createHash('sha256').update(PROJECT).update(String(userInfo().uid))
  for (const name of readdirSync(MIGRATIONS).toSorted()) hash.update(readFileSync(join(MIGRATIONS, name)))
  const place = join(tmpdir(), `waybill-test-${hash.digest('hex').slice(0, 12)}`)
  const socket = process.platform === 'win32' ? `\\\\.\\pipe\\${place}` : `${place}.sock`
  return { directory: place, socket, log: join(place, 'keeper.log') }
}

let lease: Promise<TestServer> | undefined

/** The server of this run, started if need be. The process leases it until it ends. */
export function testServer(): Promise<TestServer> {
  return (lease ??= leaseServer())
}

async function leaseServer(): Promise<TestServer> {
  const { socket, log } = keeperPlace()
  const deadline = Date.now() + START_LIMIT_MS
  let keeper: ChildProcess | undefined
  for (;;) {
    const server = await connectKeeper(socket)
    if (server !== undefined) return server
    if (Date.now() > deadline) throw new Error(`No test database within ${START_LIMIT_MS} ms${tail(log)}`)
    const running = keeper !== undefined && keeper.exitCode === null && keeper.signalCode === null
    if (!running) {
      // Another process may be starting or ending one: then ours finds the directory locked (code 0) and we go on.
      if (keeper?.exitCode === 1) throw new Error(`The keeper of the test database failed${tail(log)}`)
      keeper = startKeeper()
    }
    await sleep(RETRY_MS)
  }
}

function tail(log: string): string {
  return existsSync(log) ? `:\n${readFileSync(log, 'utf8').slice(-2000)}` : ''
}

function startKeeper(): ChildProcess {
  const { directory, log } = keeperPlace()
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const output = openSync(log, 'a', 0o600)
  const child = spawn(...plainNode('database-keeper.ts', []), {
    cwd: PROJECT,
    stdio: ['ignore', output, output],
    detached: true,
  })
  child.unref()
  return child
}

/** Connects and keeps the connection as the lease; undefined when no keeper listens or it ends just now. */
async function connectKeeper(path: string): Promise<TestServer | undefined> {
  const socket = await openSocket(path)
  if (socket === undefined) return undefined
  const line = await firstLine(socket)
  // The lease holds as long as the process lives, and must not keep it alive.
  socket.unref()
  const server: unknown = JSON.parse(line ?? 'null')
  return isTestServer(server) ? server : undefined
}

/** Undefined when the connection ends before, in whatever way. */
function firstLine(socket: Socket): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  socket.once('close', () => resolve(undefined))
  // An error is told by `openSocket`'s listener, and `close` follows it.
  const lines = createInterface({ input: socket })
  lines.on('error', () => undefined)
  lines.once('line', resolve)
  lines.once('close', () => resolve(undefined))
  return promise
}

function isTestServer(value: unknown): value is TestServer {
  return typeof value === 'object' && value !== null && 'url' in value && 'superuserUrl' in value
}

async function openSocket(path: string): Promise<Socket | undefined> {
  const { promise, resolve } = Promise.withResolvers<Socket | undefined>()
  const socket = createConnection(path)
  socket.once('connect', () => resolve(socket))
  socket.on('error', () => resolve(undefined))
  return promise
}

/** Asks a keeper that nobody else leases to end now, and waits until its server is gone. */
export async function endTestServer(): Promise<void> {
  const socket = await openSocket(keeperPlace().socket)
  if (socket === undefined) return
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  socket.once('close', () => resolve())
  socket.resume()
  socket.end('end\n')
  await closed
}
