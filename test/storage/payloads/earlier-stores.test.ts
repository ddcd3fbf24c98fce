import { randomBytes, randomUUID } from 'node:crypto'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import t from 'tap'
import { withEarlierStores } from '../../../storage/payloads/earlier-stores.ts'
import { openStage, readStage } from '../../../storage/payloads/journal.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { noteStorage } from '../../../storage/payloads/used-storages.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { createTestDatabase } from '../../support/database.ts'
import { temporaryDirectory } from '../../support/processes.ts'
import { localStorage } from '../../support/storages.ts'
import { newMessage } from '../exchange/fixture.ts'
import { bytesIn } from './store-contract.ts'

t.setTimeout(300_000)

t.test('the storages that were used before are remembered, the latest first', async (t) => {
  const { pool } = await createTestDatabase(t)
  const s3 = {
    ...localStorage('/unused'),
    storage_backend: 's3' as const,
    storage_s3_bucket: 'acme',
    storage_s3_region: 'eu-central-1',
  }
  t.same(await noteStorage(pool, localStorage('/first')), [])
  t.same(await noteStorage(pool, localStorage('/first')), [], 'the same again is no other')
  t.match(await noteStorage(pool, s3), [{ storage_local_directory: '/first' }])
  t.match(await noteStorage(pool, localStorage(relative(process.cwd(), '/second'))), [
    { storage_backend: 's3', storage_s3_bucket: 'acme', storage_local_directory: '' },
    { storage_backend: 'local', storage_local_directory: '/first' },
  ])
  t.match(
    await noteStorage(pool, localStorage('/first/.')),
    [{ storage_local_directory: '/second' }, { storage_backend: 's3' }],
    'a directory is its absolute path',
  )
})

t.test('what was stored before a change of the storage is found where it lies', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [first, second] = [await temporaryDirectory(t), await temporaryDirectory(t)]
  const before = await LocalStore.open(first)
  const bytes = randomBytes(400_000)
  const message = newMessage({ stages: [] })
  const { sha256, sizeBytes } = await before.put(message.id, 'unpacked', bytes)
  const stages = [{ stage: 'unpacked' as const, bytes: null, sha256, size_bytes: sizeBytes }]
  await accept(pool, [{ ...message, stages }])
  const store = withEarlierStores(await LocalStore.open(second), [localStorage(first)])
  const read = () => readStage(pool, store, message.id, 'unpacked', 1_000_000)
  t.ok(bytes.equals(await read()))
  t.equal(store.place, `the directory ${second}`, 'what is stored now is stored there alone')

  const id = randomUUID()
  await store.put(id, 'unpacked', Buffer.from('new'))
  await store.putMany([{ messageId: id, stage: 'headers', bytes: Buffer.from('also') }])
  t.same(
    (await readdir(second)).toSorted(),
    ['.incoming', id].toSorted(),
    'what is stored goes to the new one',
  )
  t.equal(String(await bytesIn(store, id, 'headers')), 'also')

  await writeFile(join(first, message.id, 'unpacked'), randomBytes(400_000))
  await t.rejects(read(), { name: 'StorageError', problem: 'damaged' }, 'its digest is checked there, too')
  await rm(join(first, message.id), { recursive: true })
  await t.rejects(openStage(pool, store, message.id, 'unpacked'), {
    problem: 'missing',
    message: `The payload ${message.id}/unpacked is recorded and not stored: it is not in the directory ${second}, nor in storage that was used before: the directory ${first}`,
  })
})

t.test('one that cannot be read hides no other, and is told of', async (t) => {
  const [broken, whole, present] = [
    await temporaryDirectory(t),
    await temporaryDirectory(t),
    await temporaryDirectory(t),
  ]
  const id = randomUUID()
  await (await LocalStore.open(whole)).put(id, 'unpacked', Buffer.from('bytes'))
  await writeFile(join(broken, id), 'a file in place of a directory')
  const store = withEarlierStores(await LocalStore.open(present), [localStorage(broken), localStorage(whole)])
  t.teardown(async () => store.close())
  t.equal(String(await bytesIn(store, id, 'unpacked')), 'bytes')
  await rm(join(whole, id), { recursive: true })
  await t.rejects(store.open(id, 'unpacked'), {
    problem: 'missing',
    message: new RegExp(`may lie in storage that was used before, the directory ${broken}: .*ENOTDIR`),
  })
})
