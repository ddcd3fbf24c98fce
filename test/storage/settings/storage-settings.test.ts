import { resolve } from 'node:path'
import t from 'tap'
import { isSameStorage, type StorageSettings } from '../../../storage/settings/storage-settings.ts'

const LOCAL: StorageSettings = {
  storage_backend: 'local',
  storage_local_directory: './payloads',
  storage_s3_bucket: 'acme',
  storage_s3_region: 'eu-1',
  storage_s3_endpoint: '',
}
const S3: StorageSettings = { ...LOCAL, storage_backend: 's3' }

const same = (one: StorageSettings, change: Partial<StorageSettings>): boolean => {
  const other = { ...one, ...change }
  t.equal(isSameStorage(one, other), isSameStorage(other, one), 'whichever comes first')
  return isSameStorage(one, other)
}

t.test('another backend is another storage', async (t) => {
  t.notOk(same(LOCAL, { storage_backend: 's3' }))
})

t.test('a local storage is its directory, however it is written', async (t) => {
  t.ok(same(LOCAL, {}))
  t.ok(same(LOCAL, { storage_local_directory: resolve('payloads') }))
  t.ok(same(LOCAL, { storage_local_directory: 'x/../payloads/' }))
  t.notOk(same(LOCAL, { storage_local_directory: './payloads2' }))
  t.ok(same(LOCAL, { storage_s3_bucket: 'other', storage_s3_region: '', storage_s3_endpoint: 'http://x' }))
})

t.test('an S3 storage is its bucket, region and endpoint', async (t) => {
  t.ok(same(S3, { storage_local_directory: '/elsewhere' }))
  t.notOk(same(S3, { storage_s3_bucket: 'other' }))
  t.notOk(same(S3, { storage_s3_region: 'eu-2' }))
  t.notOk(same(S3, { storage_s3_endpoint: 'https://s3.example.com' }))
  const endpoint = { ...S3, storage_s3_endpoint: 'https://s3.example.com' }
  t.ok(same(endpoint, { storage_s3_endpoint: 'https://S3.example.com:443/' }))
  t.notOk(same(endpoint, { storage_s3_endpoint: 'http://s3.example.com' }))
})
