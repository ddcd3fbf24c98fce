import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { PAYLOAD_STAGES, type PayloadStage } from '../../../storage/exchange/states.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { payloadName } from '../../../storage/payloads/store.ts'
import { temporaryDirectory } from '../../support/processes.ts'

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function bytesOf(
  store: LocalStore,
  id: string,
  stage: PayloadStage,
  digest?: string,
): Promise<Buffer | undefined> {
  const stream = await store.open(id, stage, { sha256: digest })
  return stream === undefined ? undefined : buffer(stream)
}

void t.test('a stage lies at <directory>/<message id>/<stage>, readable by its owner alone', async (t) => {
  const directory = join(await temporaryDirectory(t), 'payloads')
  const store = await LocalStore.open(directory)
  const id = randomUUID()
  t.same(await store.put(id, 'unpacked', Buffer.from('bytes')), {
    sizeBytes: 5,
    sha256: sha256(Buffer.from('bytes')),
  })
  const file = join(directory, id, 'unpacked')
  t.equal(await readFile(file, 'utf8'), 'bytes')
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.equal((await stat(join(directory, id))).mode & 0o777, 0o700)
  t.equal((await stat(directory)).mode & 0o777, 0o700)
})

void t.test('what is put comes back, from a stream or a buffer, of any size', async (t) => {
  const store = await LocalStore.open(await temporaryDirectory(t))
  for (const size of [0, 1, 65_536, 3_000_001]) {
    const bytes = randomBytes(size)
    const digest = sha256(bytes)
    for (const source of [bytes, Readable.from([bytes.subarray(0, size >> 1), bytes.subarray(size >> 1)])]) {
      const id = randomUUID()
      t.same(await store.put(id, 'received', source), { sizeBytes: size, sha256: digest })
      t.ok(bytes.equals((await bytesOf(store, id, 'received', digest)) ?? Buffer.of(1)), `${size} bytes`)
    }
  }
})

void t.test('a stage that is put again is replaced', async (t) => {
  const store = await LocalStore.open(await temporaryDirectory(t))
  const id = randomUUID()
  await store.put(id, 'receipt', Buffer.from('first'))
  await store.putMany([{ messageId: id, stage: 'receipt', bytes: Buffer.from('second') }])
  t.equal(String(await bytesOf(store, id, 'receipt')), 'second')
})

void t.test('many stages are put at once', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const items = Array.from({ length: 40 }, () => randomUUID()).flatMap((messageId) =>
    PAYLOAD_STAGES.map((stage) => ({ messageId, stage, bytes: randomBytes(100) })),
  )
  await store.putMany(items)
  for (const { messageId, stage, bytes } of items) {
    t.ok(bytes.equals((await bytesOf(store, messageId, stage)) ?? Buffer.of()))
  }
  t.same(await readdir(join(directory, '.incoming')), [])
  await store.putMany([])
})

void t.test('a stream that differs from its digest ends with an error', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const id = randomUUID()
  const { sha256: digest } = await store.put(id, 'unpacked', randomBytes(500_000))
  await truncate(join(directory, id, 'unpacked'), 499_999)
  await t.rejects(bytesOf(store, id, 'unpacked', digest), {
    name: 'StorageError',
    message: `The payload ${id}/unpacked differs from what was stored`,
  })
  t.equal((await bytesOf(store, id, 'unpacked'))?.length, 499_999, 'unless nobody asks')
})

void t.test('a stage that is not stored is undefined, also after its message is deleted', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const id = randomUUID()
  t.equal(await store.open(id, 'unpacked'), undefined)
  await store.put(id, 'unpacked', Buffer.from('bytes'))
  await store.delete(id)
  await store.delete(id)
  t.equal(await store.open(id, 'unpacked'), undefined)
  t.notOk(existsSync(join(directory, id)))
})

void t.test('a source that fails leaves nothing behind', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const id = randomUUID()
  async function* broken() {
    yield randomBytes(1000)
    throw new Error('the partner hung up')
  }
  await t.rejects(store.put(id, 'received', Readable.from(broken())), {
    name: 'StorageError',
    message: `The payload ${id}/received cannot be stored: the partner hung up`,
  })
  t.same(await readdir(directory), ['.incoming'])
  t.same(await readdir(join(directory, '.incoming')), [])
})

void t.test('no message id and no stage leads to another place', async (t) => {
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
  const name = fc.oneof(
    fc.string(),
    fc.uuid(),
    fc.constantFrom('..', '.', '', '../x', 'unpacked', 'received/..'),
  )
  fc.assert(
    fc.property(name, name, (messageId, stage) => {
      const valid = uuid.test(messageId) && PAYLOAD_STAGES.some((known) => known === stage)
      try {
        return payloadName(messageId, stage).join('/') === `${messageId}/${stage}` && valid
      } catch {
        return !valid
      }
    }),
  )
  const store = await LocalStore.open(await temporaryDirectory(t))
  await t.rejects(store.delete('..'), /".." is no message id/)
  await t.rejects(store.put(`${randomUUID()}/../x`, 'unpacked', Buffer.of()), /is no message id/)
})

void t.test('drafts that a killed process left are swept by age', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const [abandoned, current] = [randomUUID(), randomUUID()].map((name) => join(directory, '.incoming', name))
  await Promise.all([abandoned ?? '', current ?? ''].map((path) => writeFile(path, 'part')))
  const longAgo = new Date(Date.now() - 7_200_000)
  await utimes(abandoned ?? '', longAgo, longAgo)
  t.equal(await store.sweep(3_600_000), 1)
  t.notOk(existsSync(abandoned ?? ''))
  t.ok(existsSync(current ?? ''))
})

void t.test('the check leaves nothing and names the step that fails', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  t.same(await store.check(), { ok: true })
  t.same(await readdir(directory), ['.incoming'])
  const file = join(directory, 'file')
  await writeFile(file, '')
  await t.rejects(LocalStore.open(join(file, 'below')), {
    name: 'StorageError',
    message: /^The payload directory .*file\/below cannot be used: ENOTDIR/,
  })
})
