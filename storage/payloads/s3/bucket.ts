import type { StorageSettings } from '../../settings/storage-settings.ts'

/** The settings that name a bucket. */
export type Bucket = Pick<StorageSettings, 'storage_s3_bucket' | 'storage_s3_region' | 'storage_s3_endpoint'>
