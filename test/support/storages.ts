import type { StorageSettings } from '../../storage/settings/storage-settings.ts'

/** Settings of a store in a directory. */
export function localStorage(directory: string): StorageSettings {
  return {
    storage_backend: 'local',
    storage_local_directory: directory,
    storage_s3_bucket: '',
    storage_s3_region: '',
    storage_s3_endpoint: '',
  }
}
