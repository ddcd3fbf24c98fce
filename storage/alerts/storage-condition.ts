import { performance } from 'node:perf_hooks'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { StorageFailure } from '../exchange/intake-rounds.ts'
import { presenceOf } from '../exchange/lone-node.ts'
import { execute } from '../postgres/pool.ts'

/** So often a failure that lasts is confirmed: a node that leaves out three of these counts as dead. */
const CONFIRM_MS = 30_000
/** While the database is away; what comes then is told by a later look. */
const MOST_WAITING = 4

export interface StorageConditionOptions {
  readonly pool: Pool
  readonly log: Log
  readonly nodeId: string
  /** Name of this node. */
  readonly node: string
}

/**
 * Tells the database whether payloads can be stored, which alerts `storage_failed` once, however many nodes see it and
 * however often they start, until it has ended. A database that is away, as on a disk that is full, is told later.
 */
export class StorageCondition {
  readonly #options: StorageConditionOptions
  /** What the database was told last of this node; null when it was not told, and a former run may have left something. */
  #last: 'failed' | 'works' | null = null
  #lastAtMs = 0
  /** In order, so that an end and a new beginning are two things, however close they are. */
  #telling: Promise<void> = Promise.resolve()
  #waiting = 0
  #stopping = false

  constructor(options: StorageConditionOptions) {
    this.#options = options
  }

  /** Takes what a look at the storage has found, a few times a minute. Nobody waits for it. */
  note(failure: StorageFailure | null): void {
    const found = failure === null ? 'works' : 'failed'
    const isDue = failure !== null && performance.now() - this.#lastAtMs >= CONFIRM_MS
    if ((found === this.#last && !isDue) || this.#waiting >= MOST_WAITING) return
    this.#last = found
    this.#lastAtMs = performance.now()
    this.#waiting += 1
    this.#telling = this.#telling.then(() => this.#tell(failure))
  }

  /** What is not being told yet never is: the next start looks for itself. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#telling
  }

  /** When all that was noted is told, or could not be. */
  settled(): Promise<void> {
    return this.#telling
  }

  async #tell(failure: StorageFailure | null): Promise<void> {
    const { pool, log, nodeId, node } = this.#options
    const presence = presenceOf(nodeId)
    try {
      if (this.#stopping) return
      if (failure === null) await execute(pool, 'select note_storage_works($1)', [presence])
      else {
        const { place, problem, facts } = failure
        const told = [presence, node, place, problem, facts]
        await execute(pool, 'select note_storage_failed($1, $2, $3, $4, $5)', told)
        crashPoint('notification.storage-failed-noted')
      }
    } catch (error) {
      // The next look tells it again.
      this.#last = null
      log.debug({ reason: reasonOf(error) }, 'Cannot note the state of the storage')
    } finally {
      this.#waiting -= 1
    }
  }
}
