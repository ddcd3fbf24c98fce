import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import startPoller from '../../../actors/file/poller.ts'
import { filePollerSettings } from '../../../actors/file/settings.ts'
import { systemClock, type Clock } from '../../../runtime/clock.ts'
import type { Log } from '../../../runtime/log.ts'
import type { RunningActor } from '../../../runtime/thread/actor.ts'
import { localStorage } from '../../support/storages.ts'

export interface PollingOptions {
  readonly databaseUrl: string
  readonly nodeId: string
  /** With the folders `base` and `done`, and the payloads. */
  readonly directory: string
  readonly log: Log
  readonly settings?: object
  readonly heldBack?: () => string | null
  readonly tellCondition?: (text: string | null) => void
  readonly clock?: Clock
}

/** A poller of the source `source` in this process, over `base` of the directory. */
export async function startPolling(options: PollingOptions): Promise<RunningActor> {
  const { databaseUrl, nodeId, directory, log, settings } = options
  const { heldBack = () => null, tellCondition = () => undefined, clock = systemClock } = options
  const ending = new AbortController()
  const running = await startPoller({
    type: 'file-poller',
    name: 'source',
    node: nodeId,
    generation: '1',
    settings: filePollerSettings.parse({
      base_directory: join(directory, 'base'),
      processed_directory: join(directory, 'done'),
      from: 'acme',
      polling_interval: 1,
      settle_seconds: 0,
      ...settings,
    }),
    process: {
      databaseUrl,
      nodeId,
      runId: nodeId,
      leaseSeconds: 60,
      secretKey: randomBytes(32).toString('base64'),
      storage: localStorage(join(directory, 'payloads')),
      earlierStorages: [],
      product: 'Waybill',
    },
    log,
    clock,
    signal: ending.signal,
    announce: async () => undefined,
    heldBack,
    tellCondition,
    onAnnouncement: () => undefined,
    settled: () => undefined,
    drained: () => undefined,
    fail: () => undefined,
  })
  return {
    stop: async () => {
      ending.abort()
      await running.stop()
    },
  }
}
