import { resolve } from 'node:path'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { LocalStore } from './local-store.ts'
import type { PayloadStore } from './store.ts'

/**
 * The store of these settings, asking nobody: whether it can be used, its first use tells. The AWS SDK is loaded when S3
 * is in use and not before: it takes a fifth of a second and 35 MB of every thread.
 */
export async function connectStore(storage: StorageSettings): Promise<PayloadStore> {
  if (storage.storage_backend === 'local') return LocalStore.at(storage.storage_local_directory)
  const { S3Store } = await import('./s3/s3-store.ts')
  return S3Store.at(storage)
}

/** As a sentence names it. */
export function placeOf(storage: StorageSettings): string {
  const { storage_backend: backend, storage_s3_bucket: bucket, storage_s3_endpoint: endpoint } = storage
  if (backend === 'local') return `the directory ${resolve(storage.storage_local_directory)}`
  return endpoint === '' ? `the bucket ${bucket}` : `the bucket ${bucket} at ${endpoint}`
}
