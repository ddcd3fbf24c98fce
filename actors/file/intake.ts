import { randomUUIDv7 } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { Pool } from 'pg'
import { contentTypeOf } from '../../storage/exchange/content-type.ts'
import { JOURNAL_LIMIT_BYTES } from '../../storage/exchange/stages.ts'
import type { Direction } from '../../storage/exchange/states.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import { accept, type AcceptedMessage, type NewMessage } from '../../storage/sql/accept.ts'
import {
  committedAmong,
  isContentRefused,
  isRolledBack,
  ownedMessages,
  releaseRefused,
} from '../../storage/sql/accepted.ts'
import { directions, type PartyPair } from '../../storage/sql/direction.ts'
import { dispatch } from '../../storage/sql/dispatch.ts'
import { moveAway } from './moves.ts'
import { readStage } from './reading.ts'
import { sameFile, type Candidate } from './scan.ts'
import { UncertainAccepts } from './uncertain.ts'
import type { Warnings } from './warnings.ts'

export interface IntakeOptions {
  readonly pool: Pool
  readonly store: PayloadStore
  /** The instance's name. */
  readonly source: string
  readonly baseDirectory: string
  readonly processedDirectory: string
  readonly errorDirectory: string
  /** Names the parties of a file; null when its path does not say them. */
  readonly partiesOf: (candidate: Candidate) => PartyPair | null
  readonly warnings: Warnings
}

/** A file with what is known of it before it is stored. */
interface Taken {
  readonly candidate: Candidate
  readonly message: NewMessage
}

/** A committed message whose file may still lie in the folder. */
interface Owned {
  readonly id: string
  readonly candidate: Candidate
  readonly refused: boolean
}

/**
 * Takes files in, in steps that each survive a crash or a failure. The message is committed with its payload while the
 * file still lies in the folder: it is owned. Then the file is moved away, durably; then the message is dispatched. An
 * owned file is never accepted again; what was left between two steps, `recover` finishes, knowing the file by its
 * path, size, time and number.
 */
export class Intake {
  readonly #options: IntakeOptions
  readonly #uncertain = new UncertainAccepts()
  /** By path: owned files that could not be moved. */
  readonly #stuck = new Map<string, Candidate>()
  /** Whether messages may be owned: at the start, and after any failure. */
  #unfinished = true

  constructor(options: IntakeOptions) {
    this.#options = options
  }

  /** Takes a batch in. Answers the messages with their targets. After a failure, `recover` comes first. */
  async take(candidates: readonly Candidate[]): Promise<AcceptedMessage[]> {
    try {
      const taken = await this.#readAll(candidates.filter((candidate) => !this.#mustWait(candidate)))
      const accepted = await this.#accept(taken)
      const byId = new Map(accepted.map((message) => [message.id, message]))
      const owned = taken.flatMap(({ candidate, message: { id, refusal } }) =>
        byId.has(id) ? [{ id, candidate, refused: refusal !== null }] : [],
      )
      const refused = accepted.filter(({ status }) => status === 'Refused')
      return [...refused, ...(await this.#letGo(owned))]
    } catch (error) {
      this.#unfinished = true
      throw error
    }
  }

  /** Finishes what a failure or an end of the process cut off. Costs nothing when there was neither. */
  async recover(): Promise<AcceptedMessage[]> {
    if (!this.#unfinished) return []
    const { pool, source } = this.#options
    const found = await ownedMessages(pool, source)
    await this.#clearUncertain()
    this.#stuck.clear()
    const owned = found.map(({ id, source_reference, refused }) => {
      return { id, candidate: JSON.parse(source_reference) as Candidate, refused }
    })
    const dispatched = await this.#letGo(owned)
    this.#unfinished = this.#stuck.size > 0 || this.#uncertain.size > 0
    return dispatched
  }

  /** Owned files wait for `recover`; so does a large one whose stored payload may belong to a commit. */
  #mustWait(candidate: Candidate): boolean {
    const stuck = this.#stuck.get(candidate.path)
    if (stuck !== undefined && sameFile(stuck, candidate)) return true
    return candidate.size > JOURNAL_LIMIT_BYTES && this.#uncertain.idOf(candidate) !== null
  }

  async #readAll(candidates: readonly Candidate[]): Promise<Taken[]> {
    const { pool, partiesOf } = this.#options
    if (candidates.length === 0) return []
    const pairs = candidates.map((candidate) => partiesOf(candidate) ?? { from: '', to: '' })
    const known = await directions(pool, pairs)
    const read = await Promise.all(
      candidates.map((candidate, index) => this.#read(candidate, pairs[index], known[index] ?? null)),
    )
    return read.filter((entry) => entry !== null)
  }

  /** Null when it changed meanwhile or cannot be read: the others go on without it. */
  async #read(
    candidate: Candidate,
    pair: PartyPair | undefined,
    direction: Direction | null,
  ): Promise<Taken | null> {
    const { source, baseDirectory, store, warnings } = this.#options
    const id = this.#uncertain.idOf(candidate) ?? randomUUIDv7()
    try {
      const stage = await readStage(baseDirectory, store, candidate, id)
      if (stage === null) return null
      const { from, to } = pair ?? { from: '', to: '' }
      const refusal =
        direction === null ? `No organization and partner named ${from || '?'} and ${to || '?'}` : null
      const message: NewMessage = {
        id,
        direction: direction ?? 'outbound',
        source,
        from,
        to,
        fileName: candidate.name,
        contentType: contentTypeOf(candidate.name),
        sizeBytes: stage.size_bytes,
        stages: [stage],
        protocols: {},
        sourceReference: JSON.stringify(candidate),
        duplicateKey: null,
        refusal,
        dispatch: false,
      }
      return { candidate, message }
    } catch (error) {
      warnings.warn(candidate.path, error, 'cannot read the file')
      return null
    }
  }

  /** Commits the batch at once; file by file where the database refuses something in it. */
  async #accept(taken: readonly Taken[]): Promise<AcceptedMessage[]> {
    if (taken.length === 0) return []
    try {
      const messages = taken.map(({ message }) => message)
      const accepted = await accept(this.#options.pool, messages)
      this.#uncertain.remove(messages.map(({ id }) => id))
      return accepted
    } catch (error) {
      if (!isContentRefused(error)) {
        await this.#notAccepted(taken, error)
        throw error
      }
      const [only] = taken
      if (taken.length === 1 && only !== undefined) {
        this.#unfinished = true
        this.#options.warnings.error(only.candidate.path, error, 'the database refuses the file')
        await this.#notAccepted(taken, error)
        return []
      }
      const accepted: AcceptedMessage[] = []
      for (const entry of taken) accepted.push(...(await this.#accept([entry])))
      return accepted
    }
  }

  /** An answer that was lost may hide a commit; whatever else was stored for the messages is deleted. */
  async #notAccepted(taken: readonly Taken[], error: unknown): Promise<void> {
    for (const { message, candidate } of taken) this.#uncertain.add(message.id, candidate, performance.now())
    if (isRolledBack(error))
      await this.#discard(taken.map(({ message }) => message.id)).catch(() => undefined)
  }

  async #clearUncertain(): Promise<void> {
    if (this.#uncertain.size === 0) return
    this.#uncertain.remove(await committedAmong(this.#options.pool, this.#uncertain.ids))
    await this.#discard(this.#uncertain.expired(performance.now()))
  }

  /** Deletes the payloads of messages that were not committed. What fails here stays uncertain and is tried again. */
  async #discard(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    const committed = await committedAmong(this.#options.pool, ids)
    for (const id of ids) {
      if (!committed.has(id)) await this.#options.store.delete(id)
      this.#uncertain.remove([id])
    }
  }

  /** Moves the files away and dispatches the messages of those that are out of the way. */
  async #letGo(owned: readonly Owned[]): Promise<AcceptedMessage[]> {
    if (owned.length === 0) return []
    const { pool, baseDirectory, processedDirectory, errorDirectory, warnings } = this.#options
    const moves = owned.map(({ candidate, refused }) => {
      return { candidate, to: refused ? errorDirectory : processedDirectory }
    })
    const outcomes = await moveAway(baseDirectory, moves)
    const free: Owned[] = []
    for (const [index, entry] of owned.entries()) {
      const outcome = outcomes[index]
      const { candidate } = entry
      if (outcome === undefined || outcome.kind === 'failed') {
        this.#stuck.set(candidate.path, candidate)
        this.#unfinished = true
        warnings.error(candidate.path, outcome?.error, 'cannot move the file away, its message waits')
        continue
      }
      // What was committed is a message and goes its way; what was written since stays, as a new file.
      if (outcome.kind === 'changed')
        warnings.warn(candidate.path, null, 'the file changed after it was accepted, it stays as a new file')
      free.push(entry)
    }
    const idsOf = (refused: boolean): string[] =>
      free.filter((entry) => entry.refused === refused).map(({ id }) => id)
    const [refusedIds, goodIds] = [idsOf(true), idsOf(false)]
    if (refusedIds.length > 0) await releaseRefused(pool, refusedIds)
    return goodIds.length > 0 ? dispatch(pool, goodIds) : []
  }
}
