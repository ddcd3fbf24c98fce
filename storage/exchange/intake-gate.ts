import { WaybillError } from '../../runtime/errors.ts'
import type { Overfull } from '../sql/overfull.ts'

/** Why nothing is taken in, of the process as a whole; null where nothing is wrong. */
export interface Outages {
  readonly database: string | null
  readonly payloads: string | null
}

/** What a supervisor is told: why its sources hold back, all of them or each. */
export interface HeldBack {
  readonly all: string | null
  readonly bySource: ReadonlyMap<string, string>
}

/**
 * Says whether anything may be taken in now. What is taken in is ours to deliver: without a database or a payload store
 * it could not be kept, and behind a queue that only grows it would come late and fill the disk. Rounds of the process
 * (intake-rounds.ts) tell it what they find.
 */
export class IntakeGate {
  readonly #onChange: (held: HeldBack) => void
  #outages: Outages = { database: null, payloads: null }
  #overfull: readonly Overfull[] = []

  /** @param onChange also called when nothing has changed, so that who is new is told as well. */
  constructor(onChange: (held: HeldBack) => void = () => undefined) {
    this.#onChange = onChange
  }

  /** Why payloads cannot be stored; null when they can. */
  get payloadProblem(): string | null {
    return this.#outages.payloads
  }

  /** The queues that are too long, each in words. They hold back what feeds them; the service works. */
  get queueProblems(): readonly string[] {
    return this.#overfull.map(reasonOfQueue)
  }

  /** Throws a WaybillError when nothing can be taken in, or nothing for this target. */
  assertOpen(target: string | null = null): void {
    const { database, payloads } = this.#outages
    if (database !== null) throw new WaybillError('DATABASE_UNAVAILABLE', database)
    if (payloads !== null) throw new WaybillError('STORAGE_UNAVAILABLE', payloads)
    const full = this.#overfull.find((queue) => queue.target === target)
    if (full !== undefined) throw new WaybillError('QUEUE_FULL', reasonOfQueue(full))
  }

  noteOutage(outage: Partial<Outages>): void {
    this.#outages = { ...this.#outages, ...outage }
    this.#tell()
  }

  noteQueues(overfull: readonly Overfull[]): void {
    this.#overfull = overfull
    this.#tell()
  }

  #tell(): void {
    const { database, payloads } = this.#outages
    const bySource = new Map<string, string>()
    for (const queue of this.#overfull) {
      for (const source of queue.sources) bySource.set(source, reasonOfQueue(queue))
    }
    this.#onChange({ all: database ?? payloads, bySource })
  }
}

function reasonOfQueue({ target, limit }: Overfull): string {
  return `${limit} deliveries or more wait for ${target}`
}
