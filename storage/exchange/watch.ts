import { systemClock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import { Rounds } from '../../runtime/rounds.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import { StorageCondition } from '../alerts/storage-condition.ts'
import type { WatchedStore } from '../payloads/watched-store.ts'
import { NotificationListener } from '../postgres/listener.ts'
import { openPool } from '../postgres/pool.ts'
import { Announcements } from './announcements.ts'
import { presenceOf, refuseTwin } from './lone-node.ts'
import type { WatchedDirectory } from './disk-room.ts'
import { IntakeGate } from './intake-gate.ts'
import { queueRound, storeRound, type StorageFailure } from './intake-rounds.ts'

export interface WatchOptions {
  readonly databaseUrl: string
  /** Identifies this data directory among the nodes. */
  readonly nodeId: string
  /** Name of this node. */
  readonly node: string
  readonly log: Log
  readonly payloads: WatchedStore
  readonly supervisor: Supervisor
  /** Why payloads cannot be stored from the beginning; null when they can. */
  readonly storageProblem: string | null
  /** On whose disks room must be left. */
  readonly directories: readonly WatchedDirectory[]
  /** So many deliveries may wait for one target. */
  readonly maxWaiting: number
}

export interface Watch {
  readonly intake: IntakeGate
  /** The one connection of the process for notifications. */
  readonly listener: NotificationListener
}

/** Connections that say how the database is, and tell other nodes of deliveries: no other work delays them. */
const POOL_SIZE = 2
const PAUSE_AFTER_FAILURE_MS = 1_000

/**
 * Starts what looks and listens for the process: whether anything may be taken in, and what other nodes tell. Throws a
 * StorageError where a twin of this node runs.
 */
export async function startWatch(running: AsyncDisposableStack, options: WatchOptions): Promise<Watch> {
  const { databaseUrl, nodeId, node, log, payloads: store, supervisor, directories, maxWaiting } = options
  const { storageProblem: foundAtStart } = options
  const pool = openPool({ url: databaseUrl, size: POOL_SIZE, applicationName: 'waybill watch', log })
  running.defer(() => pool.end())
  await refuseTwin(pool, { nodeId, clock: systemClock })
  const listener = NotificationListener.start({
    url: databaseUrl,
    clock: systemClock,
    log,
    applicationName: presenceOf(nodeId),
  })
  running.defer(() => listener.stop())
  const announcements = new Announcements({
    pool,
    listener,
    log,
    heard: (target) => supervisor.announceHere(target, 1),
    look: () => supervisor.announceToAll(),
  })
  running.defer(() => announcements.stop())
  running.defer(supervisor.onAnnounced((target) => announcements.tell(target)))
  const gate = new IntakeGate((held) => supervisor.holdBack(held))
  const start = (name: string, round: () => Promise<number>): Rounds => {
    const rounds = Rounds.start({
      name,
      clock: systemClock,
      log,
      pauseAfterFailureMs: PAUSE_AFTER_FAILURE_MS,
      round,
    })
    running.defer(() => rounds.stop())
    return rounds
  }
  start('queues', queueRound({ pool, gate, log, maxWaiting }))
  const condition = new StorageCondition({ pool, log, nodeId, node })
  running.defer(() => condition.stop())
  const note = (failure: StorageFailure | null): void => condition.note(failure)
  const storeRounds = start(
    'payload store',
    storeRound({ store, directories, gate, clock: systemClock, log, foundAtStart, note }),
  )
  store.onUnavailable(() => storeRounds.wake())
  return { intake: gate, listener }
}
