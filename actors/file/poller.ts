import { join, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { crashPoint } from '../../runtime/crash-point.ts'
import { reasonOf } from '../../runtime/errors.ts'
import { Rounds } from '../../runtime/rounds.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Lease } from '../../storage/exchange/leases.ts'
import { JOURNAL_LIMIT_BYTES } from '../../storage/exchange/stages.ts'
import { isUnavailable } from '../../storage/postgres/unavailable.ts'
import type { AcceptedMessage } from '../../storage/sql/accept.ts'
import type { PartyPair } from '../../storage/sql/direction.ts'
import type { Candidate } from './candidate.ts'
import { errorOf, FolderCaller, type Caller } from './folder-caller.ts'
import type { PollerOperations } from './folder-operations.ts'
import type { FolderPlaces } from './folder-work.ts'
import { Intake } from './intake.ts'
import { pathReader } from './pattern.ts'
import { depthOf } from './scan.ts'
import { SettledFiles } from './settled-files.ts'
import type { FilePollerSettings } from './settings.ts'
import { Warnings } from './warnings.ts'

/** One transaction takes in so many files, or so many bytes of them. */
const MAX_BATCH_FILES = 64
const MAX_BATCH_BYTES = 16 * 1024 * 1024
/** Files that are watched at the same time; what is beyond is seen when some of them are gone. */
const MAX_WATCHED_FILES = 50_000
const PAUSE_AFTER_FAILURE_MS = 1_000
/** How soon a poller that holds back looks whether it may go on. */
const HELD_BACK_MS = 500

/**
 * Runs a `file-poller`: watches a folder by looking, which network folders allow too, and takes in what has settled.
 * Of several nodes the one that holds the poller's lease does; the others wait for it.
 */
export default async function start(context: ActorContext<FilePollerSettings>): Promise<RunningActor> {
  const { settings, name, log, clock } = context
  const facts = context.process as ProcessFacts
  const folder = new FolderCaller<PollerOperations>({ role: 'poller', opening: placesOf(settings), log })
  await folder.call('open', placesOf(settings))
  const storage = await openStorage(facts, { log, name, poolSize: 2 })
  const { pool, payloads } = storage
  const lease = new Lease({ pool, log, name: `poller/${name}`, nodeId: facts.nodeId })
  const poller = new Poller(context, { folder: folder.call, lease, storage: { pool, payloads } })
  const rounds = Rounds.start({
    name: 'poller',
    clock,
    log,
    pauseAfterFailureMs: PAUSE_AFTER_FAILURE_MS,
    round: () => poller.roundTold(),
  })
  return {
    stop: async () => {
      const closing = folder.close()
      await rounds.stop()
      await closing
      await lease.release()
      await storage.close()
    },
  }
}

interface PollerParts {
  readonly folder: Caller<PollerOperations>
  readonly lease: Lease
  readonly storage: Pick<Awaited<ReturnType<typeof openStorage>>, 'pool' | 'payloads'>
}

class Poller {
  readonly #context: ActorContext<FilePollerSettings>
  readonly #parts: PollerParts
  readonly #warnings: Warnings
  readonly #intake: Intake
  #settledFiles: SettledFiles
  #isHolder = false
  #heldBack: string | null = null

  constructor(context: ActorContext<FilePollerSettings>, parts: PollerParts) {
    this.#context = context
    this.#parts = parts
    this.#warnings = new Warnings(context.log)
    this.#settledFiles = this.#forgetAll()
    const { folder, lease, storage } = parts
    this.#intake = new Intake({
      pool: storage.pool,
      store: storage.payloads,
      source: context.name,
      folder,
      lease,
      partiesOf: partyReader(context.settings),
      warnings: this.#warnings,
    })
  }

  /** A round that shows in the list of instances what keeps it from taking files in. */
  async roundTold(): Promise<number> {
    const context = this.#context
    try {
      const pauseMs = await this.round()
      const waits = !this.#isHolder && this.#heldBack === null
      context.tellCondition(waits ? 'another node polls this folder' : null)
      return pauseMs
    } catch (error) {
      if (!this.#context.signal.aborted)
        context.tellCondition(isUnavailable(error) ? 'the database does not answer' : reasonOf(error))
      throw error
    }
  }

  /** One look at the folder. Answers after how many milliseconds the next is due. */
  async round(): Promise<number> {
    if (this.#mustHoldBack()) return HELD_BACK_MS
    if (!(await this.#holdLease())) return this.#parts.lease.lookMs
    await this.#announce(await this.#intake.recover())
    if (this.#intake.isStuck) throw new Error('Too many files cannot be moved away: nothing more is taken')
    const { found, isWhole } = await this.#look()
    const { settled, nextInMs } = this.#settledFiles.look(found, performance.now())
    // The oldest first, as far as their times tell.
    const inOrder = settled.toSorted(
      (one, other) => one.mtimeMs - other.mtimeMs || (one.path < other.path ? -1 : 1),
    )
    for (const batch of batches(inOrder)) {
      if (this.#context.signal.aborted || this.#mustHoldBack()) return 0
      await this.#announce(await this.#intake.take(batch))
    }
    if (isWhole) this.#warnings.endRound()
    else if (settled.length > 0) return 0
    return Math.min(this.#context.settings.polling_interval * 1000, nextInMs ?? Infinity)
  }

  /** A node that waits for the lease forgets what it saw: it may be long ago. */
  async #holdLease(): Promise<boolean> {
    const { lease } = this.#parts
    const isHolder = await lease.acquire()
    if (isHolder !== this.#isHolder) {
      this.#isHolder = isHolder
      if (isHolder) crashPoint('file-poller.lease-held')
      this.#settledFiles = this.#forgetAll()
      this.#intake.begin()
    }
    return isHolder
  }

  #forgetAll(): SettledFiles {
    return new SettledFiles(this.#context.settings.settle_seconds * 1000)
  }

  /** Told once, and its end too. */
  #mustHoldBack(): boolean {
    const reason = this.#context.heldBack()
    if (reason !== this.#heldBack) {
      this.#heldBack = reason
      const { log } = this.#context
      if (reason === null) log.info('files are taken in again')
      else log.warn({ reason }, 'no files are taken in, they stay where they are')
    }
    return reason !== null
  }

  /** What there is, up to the number that is watched. */
  async #look(): Promise<{ found: Candidate[]; isWhole: boolean }> {
    const { folder } = this.#parts
    const found: Candidate[] = []
    const left: string[] = []
    let page = await folder('look', { begin: true })
    while (page !== null && found.length < MAX_WATCHED_FILES && !this.#context.signal.aborted) {
      for (const candidate of page.candidates) if (!this.#intake.mustWait(candidate)) found.push(candidate)
      left.push(...page.left)
      for (const { path, text, failure } of page.oddities)
        this.#warnings.warn(path, failure === null ? null : errorOf(failure), text)
      page = await folder('look', { begin: false })
    }
    if (page === null) this.#intake.noteLeft(left)
    return { found, isWhole: page === null }
  }

  async #announce(messages: readonly AcceptedMessage[]): Promise<void> {
    const counts = Map.groupBy(
      messages.flatMap(({ targets }) => targets),
      (target) => target,
    )
    await Promise.all([...counts].map(([target, { length }]) => this.#context.announce(target, length)))
    if (messages.length > 0) crashPoint('file-poller.announced')
  }
}

function placesOf(settings: FilePollerSettings): FolderPlaces {
  const processed = resolve(settings.processed_directory)
  return {
    baseDirectory: resolve(settings.base_directory),
    processedDirectory: processed,
    errorDirectory:
      settings.error_directory === '' ? join(processed, 'error') : resolve(settings.error_directory),
    depth: depthOf(settings.path_pattern),
    filePattern: settings.file_pattern,
  }
}

function partyReader(settings: FilePollerSettings): (candidate: Candidate) => PartyPair | null {
  const read = pathReader(settings.path_pattern)
  return ({ path }) => {
    const places = read(path)
    const from = places?.from ?? (settings.from === '' ? null : settings.from)
    const to = places?.to
    return from === null || to === undefined ? null : { from, to }
  }
}

/** Large files go to the store as they are read and do not count. */
function* batches(candidates: readonly Candidate[]): Generator<Candidate[]> {
  let batch: Candidate[] = []
  let bytes = 0
  for (const candidate of candidates) {
    const size = candidate.size <= JOURNAL_LIMIT_BYTES ? candidate.size : 0
    if (batch.length >= MAX_BATCH_FILES || (batch.length > 0 && bytes + size > MAX_BATCH_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(candidate)
    bytes += size
  }
  if (batch.length > 0) yield batch
}
