import { join, resolve } from 'node:path'
import type { Clock } from '../../runtime/clock.ts'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { StorageError } from '../storage-error.ts'
import { connectStore } from './connect.ts'
import { DRAFTS, LocalStore } from './local-store.ts'
import { exists, type ProbeResult } from './probe.ts'
import { StorageTest } from './storage-test.ts'
import type { PayloadStore } from './store.ts'

/** A machine that starts is busy. */
const ANSWER_LIMIT_MS = 30_000

export interface OpenedStore {
  readonly store: PayloadStore
  /** Why it cannot store anything now; null when it can. */
  readonly problem: string | null
}

/**
 * Opens the store that the settings name. A directory whose disk is full, read-only or failing is opened all the same: who
 * runs can tell of it, and goes on by himself when it is over. Otherwise throws a StorageError when the store cannot be
 * used; also when it hangs, which would be a start that neither comes to an end nor says why.
 */
export async function openPayloadStore(storage: StorageSettings, clock: Clock): Promise<OpenedStore> {
  const tested = await new StorageTest({ clock, answerLimitMs: ANSWER_LIMIT_MS }).run(storage)
  const directory = storage.storage_backend === 'local' ? resolve(storage.storage_local_directory) : null
  if (tested.ok) {
    const store = directory === null ? await connectStore(storage) : await LocalStore.prepare(directory)
    return { store, problem: null }
  }
  if (directory === null || !(await isOfTheDisk(directory, tested)))
    throw new StorageError(`${namedBy(storage)} cannot be used: ${tested.step}: ${tested.problem}`)
  // One that was used before is not prepared anew: what is mounted there later may be another disk.
  const isPrepared = await exists(join(directory, DRAFTS))
  const store = isPrepared ? LocalStore.at(directory) : LocalStore.unprepared(directory)
  return { store, problem: tested.problem }
}

/** Whether the directory is there, and only its disk takes nothing now. */
async function isOfTheDisk(directory: string, tested: ProbeResult & { ok: false }): Promise<boolean> {
  return (tested.kind === 'full' || tested.kind === 'failing') && (await exists(directory))
}

/** As the operator wrote it. */
function namedBy(storage: StorageSettings): string {
  const { storage_s3_bucket: bucket, storage_s3_region: region, storage_s3_endpoint: endpoint } = storage
  if (storage.storage_backend === 'local') return `The payload directory ${storage.storage_local_directory}`
  return `The S3 bucket ${bucket} (${[region, endpoint].filter((part) => part !== '').join(', ')})`
}
