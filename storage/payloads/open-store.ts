import type { Clock } from '../../runtime/clock.ts'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { StorageError } from '../storage-error.ts'
import { LocalStore } from './local-store.ts'
import { S3_IS_MISSING, StorageTest } from './storage-test.ts'

/** A machine that starts is busy. */
const ANSWER_LIMIT_MS = 30_000

/**
 * Opens the store that the settings name. Throws a StorageError when it cannot be used; also when it hangs, which would
 * otherwise be a start that neither comes to an end nor says why.
 */
export async function openPayloadStore(storage: StorageSettings, clock: Clock): Promise<LocalStore> {
  if (storage.storage_backend === 's3') {
    throw new StorageError(
      `The setting storage_backend is s3. ${S3_IS_MISSING}; the command "waybill settings storage local ./payloads" changes the setting`,
    )
  }
  const directory = storage.storage_local_directory
  const tested = await new StorageTest({ clock, answerLimitMs: ANSWER_LIMIT_MS }).run(storage)
  if (tested.ok) return LocalStore.prepare(directory)
  throw new StorageError(
    `The payload directory ${directory} cannot be used: ${tested.step}: ${tested.problem}`,
  )
}
