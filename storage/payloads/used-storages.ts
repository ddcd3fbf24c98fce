import { resolve } from 'node:path'
import { execute, query, transaction, type Queryable } from '../postgres/pool.ts'
import type { Pool } from 'pg'
import { isSameStorage, type StorageSettings } from '../settings/storage-settings.ts'

/** Looked through at most for what the storage in use does not have. */
const MOST_EARLIER = 8

/**
 * Notes that payloads are stored here from now on, and answers where they were stored before, the latest first. A
 * directory is noted by its absolute path: a relative one means another place for another process.
 */
export async function noteStorage(pool: Pool, storage: StorageSettings): Promise<readonly StorageSettings[]> {
  const absolute = absoluteOf(storage)
  return transaction(pool, async (client) => {
    await execute(
      client,
      `insert into used_storage (storage_backend, storage_local_directory, storage_s3_bucket, storage_s3_region, storage_s3_endpoint)
       values ($1, $2, $3, $4, $5)
       on conflict (storage_backend, storage_local_directory, storage_s3_bucket, storage_s3_region, storage_s3_endpoint)
       do update set last_used_at = now()`,
      [
        absolute.storage_backend,
        absolute.storage_local_directory,
        absolute.storage_s3_bucket,
        absolute.storage_s3_region,
        absolute.storage_s3_endpoint,
      ],
    )
    const used = await usedStorages(client)
    return used.filter((other) => !isSameStorage(other, absolute)).slice(0, MOST_EARLIER)
  })
}

function usedStorages(on: Queryable): Promise<StorageSettings[]> {
  return query<StorageSettings>(
    on,
    `select storage_backend, storage_local_directory, storage_s3_bucket, storage_s3_region, storage_s3_endpoint
     from used_storage order by last_used_at desc, id desc limit 100`,
  )
}

/** Only what its backend uses, so that the same place is noted once. */
function absoluteOf(storage: StorageSettings): StorageSettings {
  if (storage.storage_backend === 's3') return { ...storage, storage_local_directory: '' }
  return {
    storage_backend: 'local',
    storage_local_directory: resolve(storage.storage_local_directory),
    storage_s3_bucket: '',
    storage_s3_region: '',
    storage_s3_endpoint: '',
  }
}
