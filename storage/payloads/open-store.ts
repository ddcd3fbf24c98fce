import type { Clock } from '../../runtime/clock.ts'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { StorageError } from '../storage-error.ts'
import { connectStore } from './connect.ts'
import { LocalStore } from './local-store.ts'
import { StorageTest } from './storage-test.ts'
import type { PayloadStore } from './store.ts'

/** A machine that starts is busy. */
const ANSWER_LIMIT_MS = 30_000

/**
 * Opens the store that the settings name. Throws a StorageError when it cannot be used; also when it hangs, which would
 * otherwise be a start that neither comes to an end nor says why.
 */
export async function openPayloadStore(storage: StorageSettings, clock: Clock): Promise<PayloadStore> {
  const tested = await new StorageTest({ clock, answerLimitMs: ANSWER_LIMIT_MS }).run(storage)
  if (!tested.ok) {
    throw new StorageError(`${namedBy(storage)} cannot be used: ${tested.step}: ${tested.problem}`)
  }
  return storage.storage_backend === 'local'
    ? LocalStore.prepare(storage.storage_local_directory)
    : connectStore(storage)
}

/** As the operator wrote it. */
function namedBy(storage: StorageSettings): string {
  const { storage_s3_bucket: bucket, storage_s3_region: region, storage_s3_endpoint: endpoint } = storage
  if (storage.storage_backend === 'local') return `The payload directory ${storage.storage_local_directory}`
  return `The S3 bucket ${bucket} (${[region, endpoint].filter((part) => part !== '').join(', ')})`
}
