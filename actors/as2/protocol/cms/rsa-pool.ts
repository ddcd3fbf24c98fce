/** Decryption with RSA beside the thread that asks for it. */
import { extname } from 'node:path'
import { Piscina } from 'piscina'
import type { RsaKey, RsaTask } from './rsa-decryption.ts'

/** The file beside this one, as source or as built. */
const THREAD = new URL(`./rsa-decryption${extname(import.meta.url)}`, import.meta.url)
const IDLE_MS = 60_000
/** Handed over at once, so that the thread goes on from one to the next without being woken. */
const TASKS_AT_ONCE = 16
const HEAP_MB = 32

type Pool = Piscina<RsaTask, Uint8Array | null>

let pool: Pool | null = null

/**
 * The private operation is a third of what a small message takes, and node:crypto has no form of it that leaves the
 * asking thread alone, as it has of signing. The thread starts when it is needed, and ends when it is idle.
 */
export async function decryptBeside(rsa: RsaKey, bytes: Uint8Array): Promise<Uint8Array | null> {
  pool ??= openPool()
  // A view would take all of the memory along that it looks at: the whole message.
  return pool.run({ rsa, bytes: Uint8Array.from(bytes) })
}

function openPool(): Pool {
  const opened: Pool = new Piscina({
    filename: THREAD.href,
    minThreads: 0,
    maxThreads: 1,
    concurrentTasksPerWorker: TASKS_AT_ONCE,
    idleTimeout: IDLE_MS,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    env: {},
    execArgv: [],
    recordTiming: false,
  })
  // Whoever waits for a thread that fails hears of it by his own task.
  opened.on('error', () => undefined)
  return opened
}
