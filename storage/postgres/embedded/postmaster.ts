import { execFile } from 'node:child_process'
import { readdir, readFile, readlink, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Log } from '../../../runtime/log.ts'
import { StorageError } from '../../storage-error.ts'
import { removeRuntimeDirectory } from './runtime-directory.ts'

/**
 * A server whose process of ours was killed lives on. Its cluster names it in `postmaster.pid`; but the number may
 * since belong to a stranger, so nothing is ended before it is known to be a PostgreSQL that works in this cluster.
 */

const run = promisify(execFile)
const FAST_SHUTDOWN_MS = 15_000
const IMMEDIATE_SHUTDOWN_MS = 10_000
const KILL_MS = 5_000
const POLL_MS = 20

/** `postmaster.pid`: line 1 the process id, line 5 the directory of the Unix socket. */
interface PidFile {
  readonly pid: number
  readonly socketDirectory: string
}

async function readPidFile(cluster: string): Promise<PidFile | undefined> {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  const lines = text.split('\n')
  return { pid: Number(lines[0]), socketDirectory: lines[4] ?? '' }
}

/** Ends what an earlier process left running in the cluster, and removes its pid file and its socket directory. */
export async function endOrphans(cluster: string, log: Log): Promise<void> {
  const left = await readPidFile(cluster)
  if (left !== undefined && (await worksIn(left.pid, cluster))) {
    log.info({ pid: left.pid }, 'Ending the PostgreSQL that an earlier process left running')
    await endServer(left.pid, cluster)
  }
  // A postmaster that was killed leaves backends that end by themselves; until then the cluster is in use.
  const backends = await processesIn(cluster)
  if (!(await pollUntil(async () => (await aliveOf(backends, cluster)).length === 0, FAST_SHUTDOWN_MS))) {
    for (const pid of await aliveOf(backends, cluster)) signal(pid, 'SIGKILL')
    await pollUntil(async () => (await aliveOf(backends, cluster)).length === 0, KILL_MS)
  }
  // The server itself keeps a pid file whose number is alive, even when it is a stranger's by now.
  if (left === undefined) return
  await rm(join(cluster, 'postmaster.pid'), { force: true })
  await removeRuntimeDirectory(left.socketDirectory)
}

async function endServer(pid: number, cluster: string): Promise<void> {
  const steps = [
    ['SIGINT', FAST_SHUTDOWN_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_MS],
    ['SIGKILL', KILL_MS],
  ] as const
  for (const [name, waitMs] of steps) {
    signal(pid, name)
    if (await pollUntil(async () => !(await worksIn(pid, cluster)), waitMs)) return
  }
  throw new StorageError(
    `The PostgreSQL of an earlier process (pid ${pid}) does not end; end it and start again`,
  )
}

/** Whether the process is a PostgreSQL of this cluster. A process that may not be looked at is a stranger's. */
async function worksIn(pid: number, cluster: string): Promise<boolean> {
  if (!Number.isInteger(pid) || pid <= 1 || pid === process.pid) return false
  try {
    if (process.platform === 'linux') {
      const [here, there, state] = await Promise.all([
        stat(cluster),
        stat(`/proc/${pid}/cwd`),
        readlink(`/proc/${pid}/exe`),
      ])
      const program = basename(state.replace(/ \(deleted\)$/, ''))
      return here.dev === there.dev && here.ino === there.ino && program === 'postgres'
    }
    if (process.platform === 'win32') return false
    const { stdout } = await run('ps', ['-o', 'command=', '-p', String(pid)])
    return stdout.includes('postgres') && stdout.includes(cluster)
  } catch {
    return false
  }
}

async function processesIn(cluster: string): Promise<readonly number[]> {
  if (process.platform !== 'linux') return []
  const names = await readdir('/proc').catch(() => [])
  return aliveOf(names.filter((name) => /^\d+$/.test(name)).map(Number), cluster)
}

async function aliveOf(pids: readonly number[], cluster: string): Promise<readonly number[]> {
  const works = await Promise.all(pids.map((pid) => worksIn(pid, cluster)))
  return pids.filter((_pid, index) => works[index] === true)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended meanwhile.
  }
}

async function pollUntil(holds: () => Promise<boolean>, limitMs: number): Promise<boolean> {
  const deadline = Date.now() + limitMs
  while (!(await holds())) {
    if (Date.now() > deadline) return false
    await sleep(POLL_MS)
  }
  return true
}
