import type { Worker } from 'node:worker_threads'
import type { Begun } from './thread.ts'

export interface TimeLimits {
  /** How long a thread may take to begin: it may have to be started. */
  readonly beginMs: number
  /** Processor time that the reading of one upload may take: what the file itself asks for. */
  readonly cpuMs: number
  /** How long the reading may take by the clock, on a machine that has much else to do. */
  readonly readMs: number
}

/** `file`: the file asks for too much. `server`: the machine did not come to it. */
export type Overrun = 'file' | 'server'

/** A thread that has nearly used its time up is not asked more often than this. */
const SHORTEST_MS = 25

/** Holds one reading to its times. The first that is over is told, once. */
export class ReadingTimes {
  readonly #limits: TimeLimits
  readonly #tell: (overrun: Overrun) => void
  #clock: NodeJS.Timeout
  #processor: NodeJS.Timeout | null = null
  #over = false

  constructor(limits: TimeLimits, tell: (overrun: Overrun) => void) {
    this.#limits = limits
    this.#tell = tell
    this.#clock = setTimeout(() => this.#end('server'), limits.beginMs)
  }

  /** The thread reads from now on. */
  begin(worker: Worker | undefined, { cpu }: Begun): void {
    if (this.#over) return
    clearTimeout(this.#clock)
    this.#clock = setTimeout(() => this.#end('server'), this.#limits.readMs)
    if (worker !== undefined) this.#ask(worker, cpu, this.#limits.cpuMs)
  }

  stop(): void {
    this.#over = true
    clearTimeout(this.#clock)
    if (this.#processor !== null) clearTimeout(this.#processor)
  }

  /** A thread uses no more processor time than passes, so it need not be asked before what it has left has passed. */
  #ask(worker: Worker, since: NodeJS.CpuUsage, leftMs: number): void {
    this.#processor = setTimeout(
      () => {
        void this.#check(worker, since)
      },
      Math.max(leftMs, SHORTEST_MS),
    )
  }

  async #check(worker: Worker, since: NodeJS.CpuUsage): Promise<void> {
    // Without an answer the thread has ended, and so has the reading.
    const used = await worker.cpuUsage(since).catch(() => null)
    if (used === null || this.#over) return
    const leftMs = this.#limits.cpuMs - (used.user + used.system) / 1000
    if (leftMs <= 0) this.#end('file')
    else this.#ask(worker, since, leftMs)
  }

  #end(overrun: Overrun): void {
    this.stop()
    this.#tell(overrun)
  }
}
