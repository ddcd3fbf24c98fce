import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { StoreCheck } from '../payloads/store.ts'
import type { WatchedStore } from '../payloads/watched-store.ts'
import { overfullTargets } from '../sql/overfull.ts'
import { fullDisk, MIB, type FullDisk, type WatchedDirectory } from './disk-room.ts'
import type { IntakeGate } from './intake-gate.ts'

/** The rounds that find out whether anything may be taken in, and tell the gate. They never fail: a failure is the news. */

const QUEUE_ROUND_MS = 2_000
/** A look at very long queues takes some time: it is a small part of all, whatever it takes. */
const PAUSE_FACTOR = 50
const STORE_ROUND_MS = 3_000
/** After a failure, so that work goes on soon after its end. */
const RETRY_MS = 1_000
/** A store that answers later is of no use. */
const STORE_LIMIT_MS = 10_000

export interface QueueRoundOptions {
  readonly pool: Pool
  readonly gate: IntakeGate
  readonly log: Log
  /** So many deliveries may wait for one target. */
  readonly maxWaiting: number
}

/** Looks how long the queues are, and so whether the database answers. */
export function queueRound({ pool, gate, log, maxWaiting }: QueueRoundOptions): () => Promise<number> {
  let before: readonly string[] = []
  let isAway = false
  return async () => {
    const begunAt = performance.now()
    try {
      const overfull = await overfullTargets(pool, maxWaiting, before)
      const now = overfull.map(({ target }) => target)
      for (const target of now.filter((each) => !before.includes(each)))
        log.warn(
          { target, maxWaiting },
          'Too many deliveries wait: the sources that feed the target hold back',
        )
      for (const target of before.filter((each) => !now.includes(each)))
        log.info({ target }, 'The queue is shorter: the sources that feed the target go on')
      if (isAway) log.info('The database answers again: messages are taken in')
      isAway = false
      before = now
      gate.noteOutage({ database: null })
      gate.noteQueues(overfull)
      return Math.max(QUEUE_ROUND_MS, (performance.now() - begunAt) * PAUSE_FACTOR)
    } catch (error) {
      if (!isAway) log.error({ reason: reasonOf(error) }, 'The database does not answer: nothing is taken in')
      isAway = true
      gate.noteOutage({ database: 'The database does not answer' })
      return RETRY_MS
    }
  }
}

/** Why payloads cannot be stored, and where. */
export interface StorageFailure {
  /** A sentence that names no place, and is the same as long as it lasts. */
  readonly problem: string
  /** As a sentence names it; of a disk that is nearly full the directory that lies on it. */
  readonly place: string
  /** What more is known, such as the room that is left; null when nothing is. */
  readonly facts: string | null
}

export interface StoreRoundOptions {
  readonly store: WatchedStore
  /** On whose disks room must be left: of payloads, of the embedded database. */
  readonly directories: readonly WatchedDirectory[]
  readonly gate: IntakeGate
  readonly clock: Clock
  readonly log: Log
  /** What was wrong with the store when it was opened, as a check tells it: the gate is closed from the beginning. */
  readonly foundAtStart?: string | null
  /** Is told after each look; null when payloads can be stored. */
  readonly note?: (failure: StorageFailure | null) => void
}

/**
 * Stores a probe, and looks whether there is room on the disks. A store whose checks are good for a while is asked again
 * before only after a write has failed, or a check.
 */
export function storeRound(options: StoreRoundOptions): () => Promise<number> {
  const { store, directories, clock, foundAtStart = null } = options
  const tell = storageTeller(options)
  if (foundAtStart !== null) tell({ told: foundAtStart, place: store.place, facts: null })
  let isInDoubt = true
  let checkedAtMs = 0
  store.onUnavailable(() => {
    isInDoubt = true
  })
  /** A probe that has no end keeps the next one from beginning. */
  let open: Promise<StoreCheck> | null = null
  return async () => {
    let failure: string | null = null
    if (isInDoubt || performance.now() - checkedAtMs >= store.checkedForMs) {
      // Before the check: a write may fail while it goes on.
      isInDoubt = false
      open ??= store.check().finally(() => {
        open = null
      })
      const checked = await inTime(open, clock)
      checkedAtMs = performance.now()
      if (!checked.ok) failure = checked.problem
      isInDoubt ||= failure !== null
    }
    const found =
      failure === null
        ? factsOf(await fullDisk(directories))
        : { told: failure, place: store.place, facts: null }
    tell(found)
    return found === null ? STORE_ROUND_MS : RETRY_MS
  }
}

interface Found extends Omit<StorageFailure, 'problem'> {
  /** With what the operating system says. */
  readonly told: string
}

/** Tells the gate, the log and who notes it. */
function storageTeller({ gate, log, note = () => undefined }: StoreRoundOptions) {
  let problem: string | null = null
  return (found: Found | null): void => {
    const words = found === null ? null : withoutPlace(found.told)
    // By what names no draft, which is another one each time: a problem that lasts is logged once.
    if (found !== null && words !== problem) {
      const { told, place, facts } = found
      log.error({ problem: told, place, ...(facts === null ? {} : { facts }) }, NOT_STORED)
    }
    if (words === null && problem !== null) log.info('Payloads can be stored again: messages are taken in')
    problem = words
    const outage = words === null ? null : `Payloads cannot be stored: ${words}`
    gate.noteOutage({ payloads: outage })
    note(
      found === null || outage === null ? null : { problem: outage, place: found.place, facts: found.facts },
    )
  }
}

const NOT_STORED = 'Payloads cannot be stored: nothing is taken in'

function factsOf(disk: FullDisk | null): Found | null {
  if (disk === null) return null
  const { place, freeBytes, sizeBytes } = disk
  const facts = `${inMib(freeBytes)} of ${inMib(sizeBytes)} MiB are free on its disk`
  return { told: 'The disk is nearly full', place, facts }
}

const inMib = (bytes: number): number => Math.floor(bytes / MIB)

async function inTime(open: Promise<StoreCheck>, clock: Clock): Promise<StoreCheck> {
  const late = Promise.withResolvers<StoreCheck>()
  const cancel = clock.after(STORE_LIMIT_MS, () =>
    late.resolve({ ok: false, step: 'write', problem: 'The storage does not answer' }),
  )
  try {
    return await Promise.race([open, late.promise])
  } catch (error) {
    return { ok: false, step: 'write', problem: reasonOf(error) }
  } finally {
    cancel()
  }
}

/** What the operating system says names the path, which is not for everybody: our own words come first. */
function withoutPlace(problem: string): string {
  return problem
    .replace(/ \(.*$/s, '')
    .replace(/'[^']*'/g, '…')
    .replace(/\/\S+/g, '…')
}
