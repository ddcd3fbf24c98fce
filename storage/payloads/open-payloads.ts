import type { Pool } from 'pg'
import { systemClock } from '../../runtime/clock.ts'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { withEarlierStores } from './earlier-stores.ts'
import { openPayloadStore } from './open-store.ts'
import { noteStorage } from './used-storages.ts'
import { watchedStore, type WatchedStore } from './watched-store.ts'

export interface OpenedPayloads {
  readonly payloads: WatchedStore
  readonly storageInUse: StorageSettings
  /** Why nothing can be stored now; null when it can. */
  readonly storageProblem: string | null
  /** Where payloads were stored before, the latest first. */
  readonly earlierStorages: readonly StorageSettings[]
}

/** Opens the store that the settings name, and those that were in use before; throws as `openPayloadStore`. */
export async function openPayloads(
  running: AsyncDisposableStack,
  pool: Pool,
  storageInUse: StorageSettings,
): Promise<OpenedPayloads> {
  const { store, problem } = await openPayloadStore(storageInUse, systemClock)
  const earlierStorages = await noteStorage(pool, storageInUse)
  const payloads = watchedStore(withEarlierStores(store, earlierStorages))
  running.defer(() => payloads.close())
  return { payloads, storageInUse, storageProblem: problem, earlierStorages }
}
