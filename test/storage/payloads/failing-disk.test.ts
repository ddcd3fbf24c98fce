import { randomBytes, randomUUID } from 'node:crypto'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import type { Pool } from 'pg'
import { journaled } from '../../../storage/exchange/stages.ts'
import { systemClock } from '../../../runtime/clock.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { openPayloadStore } from '../../../storage/payloads/open-store.ts'
import { moveBatch } from '../../../storage/payloads/mover.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { isStoreUnavailable } from '../../../storage/storage-error.ts'
import { createTestDatabase } from '../../support/database.ts'
import { failingDisk, remount, smallDisk } from '../../support/disks.ts'
import { localStorage } from '../../support/storages.ts'
import { newMessage } from '../exchange/fixture.ts'
import { bytesIn } from './store-contract.ts'

/** A full and a broken disk: refused, no partial file, and work goes on without a restart when the disk does. */

t.setTimeout(300_000)

const MIB = 2 ** 20
const FULL = { name: 'StorageError', problem: 'full', message: /The file system is full \(ENOSPC/ }
const FAILED = { name: 'StorageError', problem: 'failing', message: /The device failed \(EIO/ }

async function* megabytes(count: number): AsyncGenerator<Buffer> {
  for (let given = 0; given < count; given += 1) yield randomBytes(MIB)
}

/** Takes all the names that a file system has left; answers them. */
async function takeNames(disk: string): Promise<string[]> {
  const names: string[] = []
  for (;;) {
    const name = join(disk, `name-${names.length}`)
    const isTaken = await writeFile(name, '').then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOSPC') throw error
        return false
      },
    )
    if (!isTaken) return names
    names.push(name)
  }
}

const journalSize = async (pool: Pool) =>
  (await query<{ rows: number }>(pool, 'select count(*) as rows from journal'))[0]?.rows

t.test('ENOSPC: what does not fit is refused and leaves nothing, what fits is stored', async (t) => {
  const disk = await smallDisk(t, 2 * MIB)
  const store = await LocalStore.open(disk)
  const everything = async () => (await readdir(disk, { recursive: true })).toSorted()
  const before = await everything()
  const put = (source: Readable | Buffer) => store.put(randomUUID(), 'received', source)
  await t.rejects(put(Readable.from(megabytes(4))), FULL)
  t.same(await everything(), before)
  await t.rejects(put(randomBytes(4 * MIB)), FULL)
  t.same(await everything(), before)
  const items = Array.from({ length: 16 }, () => ({
    messageId: randomUUID(),
    stage: 'unpacked' as const,
    bytes: randomBytes(200_000),
  }))
  await t.rejects(store.putMany(items), FULL)
  t.same(await everything(), before, 'of many at once nothing stays')
  const id = randomUUID()
  const { sha256 } = await store.put(id, 'unpacked', randomBytes(100_000))
  t.equal((await bytesIn(store, id, 'unpacked', sha256))?.length, 100_000)
})

t.test('ENOSPC: the check says so, also with no room for a name; recovery needs no restart', async (t) => {
  const disk = await smallDisk(t, MIB)
  const store = await LocalStore.open(disk)
  const id = randomUUID()
  await store.put(id, 'unpacked', Buffer.from('stored before'))
  await t.rejects(writeFile(join(disk, 'fill'), randomBytes(2 * MIB)), { code: 'ENOSPC' })
  t.match(await store.check(), { ok: false, step: 'write', problem: /^The file system is full/ })
  t.equal(String(await bytesIn(store, id, 'unpacked')), 'stored before', 'reading goes on')
  const other = LocalStore.at(disk)
  await t.rejects(other.put(randomUUID(), 'headers', Buffer.alloc(10_000)), FULL)
  await rm(join(disk, 'fill'))
  await other.put(id, 'headers', Buffer.alloc(10_000))
  t.same(await store.check(), { ok: true })
})

t.test('ENOSPC: a start goes on with a full disk, and uses it when there is room', async (t) => {
  for (const isPrepared of [true, false]) {
    // A file of a name alone takes an inode: there is none for the folder of drafts either.
    const disk = await smallDisk(t, MIB, 'nr_inodes=8')
    if (isPrepared) await LocalStore.prepare(disk)
    const names = await takeNames(disk)
    const { store, problem } = await openPayloadStore(localStorage(disk), systemClock)
    t.match(problem, /^The file system is full \(ENOSPC/)
    t.match(await store.check(), { ok: false, problem: /^The file system is full/ })
    await t.rejects(openPayloadStore(localStorage(join(disk, 'new')), systemClock), {
      name: 'StorageError',
      message: new RegExp(`^The payload directory ${disk}/new cannot be used: open: The file system is full`),
    })
    for (const name of names) await rm(name)
    t.same(await store.check(), { ok: true })
    await LocalStore.at(disk).put(randomUUID(), 'headers', Buffer.from('bytes'))
  }
})

t.test(
  'ENOSPC: a disk that was used before is not prepared anew, which may be another one by then',
  async (t) => {
    const disk = await smallDisk(t, MIB, 'nr_inodes=8')
    await LocalStore.prepare(disk)
    const names = await takeNames(disk)
    const { store } = await openPayloadStore(localStorage(disk), systemClock)
    for (const name of names) await rm(name)
    await rm(join(disk, '.incoming'), { recursive: true })
    t.match(await store.check(), { ok: false, problem: /\.incoming of the storage is missing/ })
    t.same(await readdir(disk), [])
  },
)

t.test(
  'ENOSPC: the mover leaves stages in the journal, where they are read, and moves them later',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    const disk = await smallDisk(t, MIB)
    const store = await LocalStore.open(disk)
    const messages = Array.from({ length: 10 }, () => {
      const bytes = randomBytes(200_000)
      return newMessage({ stages: [journaled('unpacked', bytes)], sizeBytes: bytes.length })
    })
    await accept(pool, messages)
    await t.rejects(moveBatch(pool, store, { limit: 100 }), FULL)
    t.equal(await journalSize(pool), 10)
    t.same(await readdir(disk), ['.incoming'])
    remount(disk, `size=${8 * MIB}`)
    t.equal(await moveBatch(pool, store, { limit: 100 }), 10)
    for (const { id, stages } of messages) t.ok(await bytesIn(store, id, 'unpacked', stages[0]?.sha256))
  },
)

t.test('a read-only file system takes nothing, and waiting for its return helps', async (t) => {
  const disk = await smallDisk(t, MIB)
  const store = await LocalStore.open(disk)
  remount(disk, 'ro')
  const refused = await store.put(randomUUID(), 'unpacked', Buffer.from('bytes')).then(
    () => null,
    (error: unknown) => error,
  )
  t.match(refused, { problem: 'failing', message: /read-only \(EROFS/ })
  t.ok(isStoreUnavailable(refused))
  const opened = await openPayloadStore(localStorage(disk), systemClock)
  t.match(opened.problem, /^The file system is read-only/, 'a start goes on all the same')
  t.match(await opened.store.check(), { ok: false })
  await t.rejects(
    openPayloadStore(localStorage(join(disk, 'new')), systemClock),
    { message: /new cannot be used: open: The file system is read-only/ },
    'unless the directory is missing: it may be a wrong one',
  )
  remount(disk, 'rw')
  t.same(await opened.store.check(), { ok: true })
  await store.put(randomUUID(), 'unpacked', Buffer.from('bytes'))
})

t.test(
  'EIO: a device that fails is told of, for writing and reading, and used again when it is back',
  async (t) => {
    const disk = await failingDisk(t)
    const directory = join(disk.path, 'payloads')
    const store = await LocalStore.open(directory)
    const id = randomUUID()
    const bytes = randomBytes(3 * MIB)
    const { sha256 } = await store.put(id, 'unpacked', bytes)
    await disk.fail()
    for (const source of [Readable.from(megabytes(2)), randomBytes(MIB)]) {
      const error = await store.put(randomUUID(), 'received', source).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      t.match(error, FAILED)
      t.ok(isStoreUnavailable(error))
    }
    await t.rejects(bytesIn(store, id, 'unpacked', sha256), FAILED)
    t.match(await store.check(), { ok: false, problem: /^The device failed/ })
    const opened = await openPayloadStore(localStorage(directory), systemClock)
    t.match(opened.problem, /^The device failed/, 'a start goes on all the same')
    await disk.recover()
    t.ok(bytes.equals((await bytesIn(store, id, 'unpacked', sha256)) ?? Buffer.of()))
    const again = await store.put(id, 'received', Readable.from(megabytes(2)))
    t.equal((await bytesIn(store, id, 'received', again.sha256))?.length, 2 * MIB)
    t.same(await opened.store.check(), { ok: true })
    t.same(await readdir(join(directory, '.incoming')), [], 'no draft was left')
  },
)
