import { randomUUIDv7 } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { Readable } from 'node:stream'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import { youngMemoryKeeper } from '../../runtime/young-memory.ts'
import { contentTypeOf, endingOf } from '../../storage/exchange/content-type.ts'
import { recordedFileName } from '../../storage/exchange/file-name.ts'
import type { Lease } from '../../storage/exchange/leases.ts'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from '../../storage/exchange/stages.ts'
import type { Direction } from '../../storage/exchange/states.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import { accept, type AcceptedMessage, type NewMessage } from '../../storage/sql/accept.ts'
import { committedAmong, isContentRefused, isRolledBack, ownedMessages } from '../../storage/sql/accepted.ts'
import { directions, type PartyPair } from '../../storage/sql/direction.ts'
import { isStoreUnavailable } from '../../storage/storage-error.ts'
import type { Candidate } from './candidate.ts'
import { errorOf, type Caller } from './folder-caller.ts'
import type { PollerOperations } from './folder-operations.ts'
import { OwnedFiles, type Reference } from './owned-files.ts'
import { UncertainAccepts } from './uncertain.ts'
import type { Warnings } from './warnings.ts'

/** A large file is read in such parts. */
const PART_BYTES = 1024 * 1024

export interface IntakeOptions {
  readonly pool: Pool
  readonly store: PayloadStore
  /** The instance's name. */
  readonly source: string
  readonly folder: Caller<PollerOperations>
  /** Under which files are taken. */
  readonly lease: Pick<Lease, 'assertHeld' | 'commit'>
  /** Names the parties of a file; null when its path does not say them. */
  readonly partiesOf: (candidate: Candidate) => PartyPair | null
  readonly warnings: Warnings
}

/** A file with what is known of it before it is stored. */
interface Taken {
  readonly candidate: Candidate
  readonly message: NewMessage
}

interface Judged {
  readonly candidate: Candidate
  readonly pair: PartyPair
  readonly direction: Direction | null
}

/**
 * Takes files in, in steps that each survive a crash or a failure. The message is committed with its payload while the
 * file still lies in the folder: it is owned. Then the file is moved away, durably; then the message is dispatched. An
 * owned file is never accepted again; what was left between two steps, `recover` finishes, knowing the file by its
 * path, size, time and number. Before each step it is certain that no other node has the folder.
 */
export class Intake {
  readonly #options: IntakeOptions
  readonly #uncertain = new UncertainAccepts()
  readonly #owned: OwnedFiles
  /** Whether messages may be owned that are not known here: at the start, and after any failure. */
  #unfinished = true

  constructor(options: IntakeOptions) {
    this.#options = options
    this.#owned = new OwnedFiles(options)
  }

  /** Another node had the folder: what is known of it is not true any more. */
  begin(): void {
    this.#unfinished = true
    this.#owned.forget()
  }

  /** Whether so much waits for a look into the folders that nothing more should be taken. */
  get isStuck(): boolean {
    return this.#owned.areTooMany
  }

  /** Owned files wait for `recover`; so does a large one whose stored payload may belong to a commit. */
  mustWait(candidate: Candidate): boolean {
    if (this.#owned.has(candidate)) return true
    return candidate.size > JOURNAL_LIMIT_BYTES && this.#uncertain.idOf(candidate) !== null
  }

  /** What a look found of files that were being moved: a stop cut that off, or another node is at it. */
  noteLeft(ids: readonly string[]): void {
    if (this.#owned.noteLeft(ids)) this.#unfinished = true
  }

  /** Takes a batch in. Answers the messages with their targets. After a failure, `recover` comes first. */
  async take(candidates: readonly Candidate[]): Promise<AcceptedMessage[]> {
    try {
      const { folder } = this.#options
      const base = await folder('identity', null)
      const judged = await this.#judge(candidates.filter((candidate) => !this.mustWait(candidate)))
      const small = judged.filter(({ candidate }) => candidate.size <= JOURNAL_LIMIT_BYTES)
      const taken = await this.#letIn(await this.#readSmall(small, base), base)
      for (const large of judged.filter((entry) => !small.includes(entry))) {
        const read = await this.#readLarge(large, base)
        if (read !== null) taken.push(...(await this.#letIn([read], base)))
      }
      return taken
    } catch (error) {
      this.#unfinished = true
      throw error
    }
  }

  /** Finishes what a failure or an end of the process cut off. Costs nothing when there was neither. */
  async recover(): Promise<AcceptedMessage[]> {
    if (!this.#unfinished && this.#owned.stuck === 0 && this.#uncertain.size === 0) return []
    this.#unfinished = true
    const { pool, source } = this.#options
    const found = await ownedMessages(pool, source)
    await this.#clearUncertain()
    this.#owned.forget()
    const owned = found.map(({ id, source_reference, refused }) => {
      return { id, reference: JSON.parse(source_reference) as Reference, refused }
    })
    const dispatched = await this.#owned.letGo(owned)
    this.#owned.noteDone()
    this.#unfinished = false
    return dispatched
  }

  async #judge(candidates: readonly Candidate[]): Promise<Judged[]> {
    if (candidates.length === 0) return []
    const { pool, partiesOf } = this.#options
    const pairs = candidates.map((candidate) => partiesOf(candidate) ?? { from: '', to: '' })
    const known = await directions(pool, pairs)
    return candidates.map((candidate, index) => {
      return { candidate, pair: pairs[index] ?? { from: '', to: '' }, direction: known[index] ?? null }
    })
  }

  /** Without those that changed meanwhile or cannot be read: the others go on. */
  async #readSmall(judged: readonly Judged[], base: number): Promise<Taken[]> {
    const { folder, warnings, lease } = this.#options
    if (judged.length === 0) return []
    lease.assertHeld()
    const outcomes = await folder(
      'read',
      judged.map(({ candidate }) => candidate),
    )
    return judged.flatMap((entry, index) => {
      const outcome = outcomes[index]
      if (outcome?.kind === 'failed')
        warnings.warn(entry.candidate.path, errorOf(outcome.failure), 'cannot read the file')
      if (outcome?.kind !== 'read') return []
      const { buffer, byteOffset, byteLength } = outcome.bytes
      const stage = journaled('unpacked', Buffer.from(buffer, byteOffset, byteLength))
      return [this.#taken(entry, stage, { id: this.#idFor(entry.candidate), base })]
    })
  }

  /** Null when it changed meanwhile or cannot be read. Leaves nothing in the store then, nor when it throws. */
  async #readLarge(judged: Judged, base: number): Promise<Taken | null> {
    const { store, warnings, folder, lease } = this.#options
    const { candidate } = judged
    lease.assertHeld()
    const id = this.#idFor(candidate)
    try {
      if (!(await folder('openFile', candidate))) return null
      const source = Readable.from(partsOf(candidate, folder), { objectMode: false })
      const { sizeBytes, sha256 } = await store.put(id, 'unpacked', source)
      crashPoint('file-poller.payload-stored')
      const stage = { stage: 'unpacked', bytes: null, size_bytes: sizeBytes, sha256 } as const
      return this.#taken(judged, stage, { id, base })
    } catch (error) {
      await store.delete(id).catch(() => undefined)
      if (isStoreUnavailable(error)) throw error
      if (!hasChanged(error)) warnings.warn(candidate.path, error, 'cannot read the file')
      return null
    } finally {
      await folder('closeFile', null).catch(() => undefined)
    }
  }

  #idFor(candidate: Candidate): string {
    return this.#uncertain.idOf(candidate) ?? randomUUIDv7()
  }

  #taken(
    { candidate, pair: { from, to }, direction }: Judged,
    stage: NewStage,
    { id, base }: { readonly id: string; readonly base: number },
  ): Taken {
    const contentType = contentTypeOf(candidate.name)
    const message: NewMessage = {
      id,
      direction: direction ?? 'outbound',
      source: this.#options.source,
      from,
      to,
      fileName: recordedFileName(candidate.name, id + endingOf(contentType)),
      contentType,
      sizeBytes: stage.size_bytes,
      stages: [stage],
      protocols: {},
      sourceReference: JSON.stringify({ ...candidate, base } satisfies Reference),
      duplicateKey: null,
      refusal:
        direction === null ? `No organization and partner named ${from || '?'} and ${to || '?'}` : null,
      dispatch: false,
    }
    return { candidate, message }
  }

  async #letIn(taken: readonly Taken[], base: number): Promise<AcceptedMessage[]> {
    const accepted = await this.#accept(taken)
    const byId = new Set(accepted.map(({ id }) => id))
    const owned = taken.flatMap(({ candidate, message: { id, refusal } }) =>
      byId.has(id) ? [{ id, reference: { ...candidate, base }, refused: refusal !== null }] : [],
    )
    const refused = accepted.filter(({ status }) => status === 'Refused')
    return [...refused, ...(await this.#owned.letGo(owned))]
  }

  /** Commits the batch at once; file by file where the database refuses something in it. */
  async #accept(taken: readonly Taken[]): Promise<AcceptedMessage[]> {
    if (taken.length === 0) return []
    try {
      const messages = taken.map(({ message }) => message)
      const accepted = await this.#options.lease.commit((client) => accept(client, messages))
      crashPoint('file-poller.accepted')
      this.#uncertain.remove(messages.map(({ id }) => id))
      return accepted
    } catch (error) {
      if (!isContentRefused(error)) {
        await this.#notAccepted(taken, error)
        throw error
      }
      const [only] = taken
      if (taken.length === 1 && only !== undefined) {
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
}

class Changed extends Error {
  override readonly name = 'Changed'
}

/** A file's bytes; throws when it turns out to have changed. */
async function* partsOf(candidate: Candidate, folder: Caller<PollerOperations>): AsyncGenerator<Buffer> {
  const keepYoung = youngMemoryKeeper()
  let left = candidate.size
  while (left > 0) {
    const part = await folder('readFile', { bytes: PART_BYTES })
    if (part === null || part.byteLength === 0)
      throw new Changed(`${candidate.path} changed while it was read`)
    left -= part.byteLength
    keepYoung(part.byteLength)
    yield Buffer.from(part.buffer, part.byteOffset, part.byteLength)
  }
}

function hasChanged(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof Changed) return true
  return false
}
