import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import type { Log } from '../../../runtime/log.ts'
import { StorageError } from '../../storage-error.ts'
import { runAs } from './account.ts'
import { clusterArgument, serverEnvironment, type Cluster } from './cluster.ts'
import type { ServerSettings } from './settings.ts'

/** A PostgreSQL that we started and that takes connections. */
export interface ServerProcess {
  readonly pid: number
  /** Resolves when the process has ended, however it came to it, with the reason in words. */
  readonly ended: Promise<string>
  /** Fast shutdown: open transactions are rolled back, everything is written. Resolves when the process has ended. */
  readonly stop: () => Promise<void>
}

type Child = ChildProcessByStdio<null, null, Readable>

const run = promisify(execFile)
const FAST_SHUTDOWN_MS = 60_000
const IMMEDIATE_SHUTDOWN_MS = 10_000
const READY = 'database system is ready to accept connections'

/** Starts the server and waits until it takes connections, through recovery if it has to. */
export async function startServer(
  cluster: Cluster,
  settings: ServerSettings,
  log: Log,
): Promise<ServerProcess> {
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child: Child = spawn(
    cluster.binaries.postgres,
    ['-D', clusterArgument(cluster.directory, cluster.account), ...options],
    {
      ...runAs(cluster.account, cluster.directory),
      env: serverEnvironment(),
      stdio: ['ignore', 'ignore', 'pipe'],
      // A session of its own: Ctrl-C in a terminal goes to the process, which ends the server in its turn.
      detached: true,
      windowsHide: true,
    },
  )
  const output = followOutput(child, log)
  const ended = endOf(child, output)
  const first = await Promise.race([output.ready.then(() => undefined), ended])
  if (first !== undefined || child.pid === undefined) {
    throw new StorageError(
      `The embedded PostgreSQL does not start in ${cluster.directory}: ${first ?? 'no process'}`,
    )
  }
  return { pid: child.pid, ended, stop: () => stopServer(child, cluster, ended, log) }
}

interface Output {
  readonly ready: Promise<void>
  /** The last message of a failure, or an empty text. */
  readonly failure: () => string
}

/** Passes the server's messages on to our log. */
function followOutput(child: Child, log: Log): Output {
  let failure = ''
  const { promise: ready, resolve } = Promise.withResolvers<void>()
  createInterface({ input: child.stderr }).on('line', (line) => {
    const [, severity = '', message = line] = /^([A-Z]+): {2}(.*)$/.exec(line) ?? []
    if (severity === 'FATAL' || severity === 'PANIC' || severity === '') failure = message
    if (severity === 'PANIC') log.error({ postgres: true }, message)
    else log.debug({ postgres: true }, message)
    if (message === READY) resolve()
  })
  return { ready, failure: () => failure }
}

async function endOf(child: Child, output: Output): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  child.once('error', (error) => resolve(error.message))
  // `close`, not `exit`: the last lines of its output have been read by then.
  child.once('close', (code, signal) => {
    const how = signal === null ? `it ended with code ${String(code)}` : `it was ended by ${signal}`
    resolve(output.failure() === '' ? how : `${output.failure()} (${how})`)
  })
  return promise
}

async function stopServer(child: Child, cluster: Cluster, ended: Promise<string>, log: Log): Promise<void> {
  await shutDown(child, cluster, 'fast')
  if (await endsWithin(ended, FAST_SHUTDOWN_MS)) return
  log.warn('The database does not end; ending it without a checkpoint')
  await shutDown(child, cluster, 'immediate')
  if (await endsWithin(ended, IMMEDIATE_SHUTDOWN_MS)) return
  child.kill('SIGKILL')
  await ended
}

async function shutDown(child: Child, cluster: Cluster, mode: 'fast' | 'immediate'): Promise<void> {
  if (process.platform === 'win32') {
    await run(cluster.binaries.pgCtl, ['stop', '-D', cluster.directory, '-m', mode, '-W']).catch(
      () => undefined,
    )
  } else {
    child.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
  }
}

async function endsWithin(ended: Promise<string>, limitMs: number): Promise<boolean> {
  const { promise: expired, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(resolve, limitMs, false)
  try {
    return await Promise.race([ended.then(() => true), expired])
  } finally {
    clearTimeout(timer)
  }
}
