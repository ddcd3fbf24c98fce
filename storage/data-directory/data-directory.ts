import { readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from '../../runtime/errors.ts'
import { makeDirectory } from '../durable-file.ts'
import { StorageError } from '../storage-error.ts'

/** The directory of the embedded database and the secret key, held by this process alone. */
export interface DataDirectory {
  /** Absolute. */
  readonly path: string
  /** Gives the lock back. It also goes with the process, however that ends. */
  readonly release: () => Promise<void>
}

/** Another process holds the directory. */
export class DirectoryInUseError extends StorageError {}

const LOCK = 'waybill.lock'
const HOLDER = 'waybill.pid'
/** `SQLITE_BUSY`, https://sqlite.org/rescode.html#busy */
const SQLITE_BUSY = 5
/** Of several that try at the same moment each can keep the others out: so long everybody tries again. */
const UNCLEAR_MS = 10_000
const RETRY_MS = 50
/** Keeps locks from the garbage collector, which would close them. */
const held = new Set<DatabaseSync>()

/**
 * Makes the directory if it is missing and locks it. Throws a StorageError when another process holds it, named by
 * its process id, or when it cannot be written.
 */
export async function openDataDirectory(directory: string): Promise<DataDirectory> {
  const path = resolve(directory)
  const holder = join(path, HOLDER)
  await makeDirectory(path, 0o700).catch((thrown: unknown) => {
    throw new StorageError(`The data directory ${path} cannot be made: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  })
  // A probe before the lock: what SQLite says of a directory without write permission helps nobody.
  const probe = join(path, `.probe-${process.pid}`)
  await writeFile(probe, '').catch((thrown: unknown) => {
    throw new StorageError(`The data directory ${path} cannot be written: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  })
  await rm(probe, { force: true })

  const lock = await lockOf(path)
  try {
    await writeFile(holder, `${process.pid}\n`, { mode: 0o600 })
  } catch (thrown) {
    lock.close()
    throw new StorageError(`The data directory ${path} cannot be written: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  }
  held.add(lock)
  return {
    path,
    release: async () => {
      if (!held.delete(lock)) return
      await rm(holder, { force: true })
      lock.close()
    },
  }
}

/**
 * An exclusive transaction of SQLite is a lock that the kernel drops with the process, on every platform and without
 * a native module. The file must not be opened otherwise in this process: POSIX drops all locks of a process on a
 * file when any descriptor of it is closed.
 */
function tryLock(path: string): DatabaseSync | null {
  let lock: DatabaseSync | undefined
  try {
    lock = new DatabaseSync(join(path, LOCK), { timeout: 0 })
    lock.exec('begin exclusive')
    return lock
  } catch (thrown) {
    lock?.close()
    if (isBusy(thrown)) return null
    throw new StorageError(`The data directory ${path} cannot be locked: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  }
}

/** Who holds the lock says so in the pid file. As long as nobody does, who was kept out may have met another's try. */
async function lockOf(path: string): Promise<DatabaseSync> {
  const deadline = performance.now() + UNCLEAR_MS
  for (;;) {
    const lock = tryLock(path)
    if (lock !== null) return lock
    const pid = await holderOf(path)
    if ((pid !== null && isRunning(pid)) || performance.now() > deadline) {
      const who = pid === null ? '' : ` (pid ${pid})`
      throw new DirectoryInUseError(`The data directory ${path} is in use by another process${who}`)
    }
    await sleep(Math.random() * RETRY_MS)
  }
}

async function holderOf(path: string): Promise<number | null> {
  const text = await readFile(join(path, HOLDER), 'utf8').catch(() => '')
  return /^\d+\n$/.test(text) ? Number(text) : null
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function isBusy(thrown: unknown): boolean {
  return thrown instanceof Error && 'errcode' in thrown && thrown.errcode === SQLITE_BUSY
}
