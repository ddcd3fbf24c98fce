import { performance } from 'node:perf_hooks'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { Lease } from '../../storage/exchange/leases.ts'
import type { AcceptedMessage } from '../../storage/sql/accept.ts'
import { releaseRefused } from '../../storage/sql/accepted.ts'
import { dispatch } from '../../storage/sql/dispatch.ts'
import { sameFile, type Candidate } from './candidate.ts'
import { errorOf, type Caller } from './folder-caller.ts'
import type { PollerOperations } from './folder-operations.ts'
import { MAY_COME_BACK_MS } from './known-directory.ts'
import type { Warnings } from './warnings.ts'

/** Files moved away in one go. */
const MOVED_AT_ONCE = 64
/** With so many files that cannot be moved away, something is wrong with the folders: nothing more is taken. */
const MOST_STUCK = 1_000

/** What a message's record says of its file while the file may still lie in the folder. */
export interface Reference extends Candidate {
  /** The number of the base directory. */
  readonly base: number
}

/** A committed message whose file may still lie in the folder. */
export interface OwnedFile {
  readonly id: string
  readonly reference: Reference
  readonly refused: boolean
}

export interface OwnedFilesOptions {
  readonly pool: Pool
  readonly folder: Caller<PollerOperations>
  /** Under which files are moved. */
  readonly lease: Pick<Lease, 'assertHeld'>
  readonly warnings: Warnings
}

/** The second half of an intake: moves the files of committed messages out of the way, and then dispatches the messages. */
export class OwnedFiles {
  readonly #options: OwnedFilesOptions
  /** By path: files that could not be moved. */
  readonly #stuck = new Map<string, OwnedFile>()
  /** Messages of files that were being moved: those that the last look found. */
  #left: ReadonlySet<string> = new Set()
  /** Since when the folder is another one than it was. */
  #strangeSinceMs: number | null = null

  constructor(options: OwnedFilesOptions) {
    this.#options = options
  }

  /** How many could not be moved. */
  get stuck(): number {
    return this.#stuck.size
  }

  get areTooMany(): boolean {
    return this.#stuck.size >= MOST_STUCK
  }

  /** Whether it is one that could not be moved. */
  has(candidate: Candidate): boolean {
    const stuck = this.#stuck.get(candidate.path)
    return stuck !== undefined && sameFile(stuck.reference, candidate)
  }

  /** They are read from the database anew. */
  forget(): void {
    this.#stuck.clear()
  }

  /** What a look found of files that were being moved. True when a move was cut off, or another node is at it. */
  noteLeft(ids: readonly string[]): boolean {
    const stuck = new Set([...this.#stuck.values()].map(({ id }) => id))
    const news = ids.filter((id) => !this.#left.has(id))
    for (const id of ids) {
      if (this.#left.has(id) && !stuck.has(id))
        this.#options.warnings.error(`.${id}.taken`, null, 'a file was left that no message waits for')
    }
    this.#left = new Set(ids)
    return news.length > 0
  }

  /** Moves files away and dispatches the messages of those that are out of the way; answers these. */
  async letGo(owned: readonly OwnedFile[]): Promise<AcceptedMessage[]> {
    const dispatched: AcceptedMessage[] = []
    for (let start = 0; start < owned.length; start += MOVED_AT_ONCE) {
      const free = await this.#moveAway(owned.slice(start, start + MOVED_AT_ONCE))
      const idsOf = (refused: boolean): string[] =>
        free.filter((entry) => entry.refused === refused).map(({ id }) => id)
      const [refusedIds, goodIds] = [idsOf(true), idsOf(false)]
      if (refusedIds.length > 0) {
        await releaseRefused(this.#options.pool, refusedIds)
        crashPoint('file-poller.refused-released')
      }
      if (goodIds.length > 0) {
        dispatched.push(...(await dispatch(this.#options.pool, goodIds)))
        crashPoint('file-poller.dispatched')
      }
    }
    return dispatched
  }

  /** Every file is in its folder, and out of the way. */
  noteDone(): void {
    if (this.#stuck.size === 0) this.#strangeSinceMs = null
  }

  /** Answers those whose files are out of the way. The failure of one is its own. */
  async #moveAway(owned: readonly OwnedFile[]): Promise<OwnedFile[]> {
    const { folder, warnings, lease } = this.#options
    lease.assertHeld()
    const outcomes = await folder(
      'moveAway',
      owned.map(({ id, reference, refused }) => ({ messageId: id, candidate: reference, refused })),
    )
    crashPoint('file-poller.moved-away')
    return owned.filter((entry, index) => {
      const outcome = outcomes[index]
      const { path, base } = entry.reference
      if (outcome === undefined || outcome.kind === 'failed') {
        this.#stuck.set(path, entry)
        const failure = outcome === undefined ? null : errorOf(outcome.failure)
        warnings.error(path, failure, 'cannot move the file away, its message waits')
        return false
      }
      // A folder that is not mounted has none of its files, and they would come back with it.
      if (outcome.kind === 'gone' && outcome.base !== base && this.#mayComeBack()) {
        this.#stuck.set(path, entry)
        warnings.error(
          path,
          null,
          'the folder is another one than the file was taken from, its message waits',
        )
        return false
      }
      // What was committed is a message and goes its way; what was written since stays, as a new file.
      if (outcome.kind === 'changed')
        warnings.warn(path, null, 'the file changed after it was accepted, it stays as a new file')
      return true
    })
  }

  #mayComeBack(): boolean {
    const nowMs = performance.now()
    this.#strangeSinceMs ??= nowMs
    return nowMs - this.#strangeSinceMs < MAY_COME_BACK_MS
  }
}
