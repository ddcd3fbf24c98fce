import { extname } from 'node:path'
import { MessageChannel, type Worker } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { fromErrorData, reasonOf, validationFailure, WaybillError } from '../../../runtime/errors.ts'
import type { Log } from '../../../runtime/log.ts'
import type { FoundMaterial } from './material.ts'
import type { Upload } from './parse.ts'
import type { Part } from './refusal.ts'
import type { Begun, ReadingResult, ReadingTask } from './thread.ts'
import { ReadingTimes, type Overrun, type TimeLimits } from './time-limits.ts'

export interface ReaderLimits extends TimeLimits {
  /** Uploads that are read at the same time. */
  readonly threads: number
  /** Uploads that wait for a thread. One more is refused. */
  readonly waiting: number
  /** Of a thread; the bytes of the upload itself are not in it. */
  readonly heapMb: number
}

export interface UploadReaderOptions {
  readonly log: Pick<Log, 'warn'>
  readonly limits?: Partial<ReaderLimits>
  /** Another file than thread.ts, whose default export reads. */
  readonly thread?: URL
}

const LIMITS: ReaderLimits = {
  threads: 2,
  waiting: 16,
  beginMs: 30_000,
  cpuMs: 1_800,
  readMs: 10_000,
  heapMb: 192,
}
const IDLE_MS = 60_000
/** The file beside this one, as source or as built. */
const THREAD = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)

/**
 * Reads uploads beside the main thread: whatever a file asks for, the server goes on answering, and a reading that
 * takes too much time or memory is ended with its thread. The file answers only for the processor time that it asks
 * for: that the machine has much else to do is no fault of its sender. Threads are started when they are needed and end when
 * they are idle. What waits for one is bounded, because each upload holds its bytes in memory.
 */
export class UploadReader {
  readonly #limits: ReaderLimits
  readonly #pool: Piscina<ReadingTask, ReadingResult>
  readonly #waiting: (() => void)[] = []
  #reading = 0
  #closed = false

  constructor({ log, limits, thread = THREAD }: UploadReaderOptions) {
    this.#limits = { ...LIMITS, ...limits }
    this.#pool = new Piscina({
      filename: thread.href,
      minThreads: 0,
      maxThreads: this.#limits.threads,
      idleTimeout: IDLE_MS,
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.heapMb },
      // Whoever reads files of strangers need not know the settings of the process.
      env: {},
      execArgv: [],
      recordTiming: false,
    })
    this.#pool.on('error', (thrown) => log.warn({ reason: reasonOf(thrown) }, 'A reading thread has failed'))
  }

  /** Throws a validation failure on a part of the upload, or TOO_BUSY. */
  async read(upload: Upload): Promise<FoundMaterial> {
    await this.#turn()
    try {
      const result = await this.#run(upload)
      if (result.kind === 'refused') throw fromErrorData(result.error)
      return result.material
    } finally {
      this.#release()
    }
  }

  /** Ends the threads. What is being read, waits or still comes is refused with TOO_BUSY. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#pool.destroy()
  }

  /** The pool's own queue is not used: it forgets a task that waits when the only thread is ended. */
  async #turn(): Promise<void> {
    const { threads, waiting } = this.#limits
    if (this.#reading >= threads) {
      if (this.#waiting.length >= waiting) {
        throw new WaybillError('TOO_BUSY', 'Too many uploads are being read; repeat this one in some seconds')
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else {
      this.#reading += 1
    }
  }

  /** The turn goes to the one who has waited longest. */
  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#reading -= 1
    else next()
  }

  async #run(upload: Upload): Promise<ReadingResult> {
    if (this.#closed) throw closed()
    const { port1, port2 } = new MessageChannel()
    const ending = new AbortController()
    let part: Part | null = null
    let overrun: Overrun | null = null
    const times = new ReadingTimes(this.#limits, (over) => {
      overrun = over
      ending.abort()
    })
    port1.on('message', (begun: Begun) => {
      if (part === null) times.begin(this.#thread(begun.threadId), begun)
      part = begun.part
    })
    try {
      const own = ownBytes(upload)
      const transferList = [port2, ...buffersOf(own)]
      return await this.#pool.run({ upload: own, progress: port2 }, { transferList, signal: ending.signal })
    } catch (thrown) {
      if (this.#closed) throw closed()
      throw refusalOfEnd(thrown, { part, overrun, cpuMs: this.#limits.cpuMs })
    } finally {
      times.stop()
      port1.close()
    }
  }

  #thread(id: number): Worker | undefined {
    return this.#pool.threads.find(({ threadId }) => threadId === id)
  }
}

function closed(): WaybillError {
  return new WaybillError('TOO_BUSY', 'The server is ending; repeat the upload when it runs again')
}

function refusalOfEnd(
  thrown: unknown,
  end: { readonly part: Part | null; readonly overrun: Overrun | null; readonly cpuMs: number },
): unknown {
  const { part, overrun, cpuMs } = end
  if (overrun === 'server') {
    return new WaybillError(
      'TOO_BUSY',
      'The server is too busy to read the upload; repeat it in some seconds',
    )
  }
  const blamed = part ?? 'certificate'
  if (overrun === 'file')
    return validationFailure({ [blamed]: `the file takes longer than ${cpuMs / 1000} seconds to read` })
  return isOutOfMemory(thrown)
    ? validationFailure({ [blamed]: 'the file takes too much memory to read' })
    : thrown
}

function isOutOfMemory(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_WORKER_OUT_OF_MEMORY'
}

/** A copy with buffers of its own, to be handed over: small Buffers share theirs with other data of the process. */
function ownBytes({ certificate, privateKey, password }: Upload): Upload {
  return {
    certificate: new Uint8Array(certificate),
    privateKey: privateKey === undefined ? undefined : new Uint8Array(privateKey),
    password,
  }
}

function buffersOf({ certificate, privateKey }: Upload): ArrayBuffer[] {
  return [certificate, privateKey].flatMap((bytes) =>
    bytes?.buffer instanceof ArrayBuffer ? [bytes.buffer] : [],
  )
}
