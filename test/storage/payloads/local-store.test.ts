import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { PAYLOAD_STAGES } from '../../../storage/exchange/states.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { payloadName } from '../../../storage/payloads/store.ts'
import { temporaryDirectory } from '../../support/processes.ts'
import { collected, holdsToTheContract, sha256Of } from './store-contract.ts'

t.setTimeout(300_000)

t.test('a directory', async (t) => {
  holdsToTheContract(t, async (t) => {
    const directory = await temporaryDirectory(t)
    return {
      store: await LocalStore.open(directory),
      damage: async (messageId, stage, change) => {
        const path = join(directory, messageId, stage)
        await writeFile(path, change(await readFile(path)))
      },
      everything: async () => (await readdir(directory, { recursive: true })).toSorted(),
    }
  })
})

t.test('a stage lies at <directory>/<message id>/<stage>, readable by its owner alone', async (t) => {
  const directory = join(await temporaryDirectory(t), 'payloads')
  const store = await LocalStore.open(directory)
  t.equal(store.place, `the directory ${directory}`)
  const id = randomUUID()
  t.same(await store.put(id, 'unpacked', Buffer.from('bytes')), {
    sizeBytes: 5,
    sha256: sha256Of(Buffer.from('bytes')),
  })
  const file = join(directory, id, 'unpacked')
  t.equal(await readFile(file, 'utf8'), 'bytes')
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.equal((await stat(join(directory, id))).mode & 0o777, 0o700)
  t.equal((await stat(directory)).mode & 0o777, 0o700)
})

t.test(
  'a stage is stored while others of its message fail, which takes their empty folder away',
  async (t) => {
    const directory = await temporaryDirectory(t)
    const store = await LocalStore.open(directory)
    let removed = 0
    for (let round = 0; round < 100; round += 1) {
      const id = randomUUID()
      const stored = new AbortController()
      const storing = store.put(id, 'received', Buffer.from('bytes')).finally(() => stored.abort())
      // As often as there are other stages.
      for (let times = 0; times < PAYLOAD_STAGES.length - 1 && !stored.signal.aborted;) {
        const isRemoved = await rmdir(join(directory, id)).then(
          () => true,
          () => false,
        )
        if (isRemoved) times += 1
        if (isRemoved) removed += 1
      }
      await storing
      t.equal(await readFile(join(directory, id, 'received'), 'utf8'), 'bytes')
    }
    t.comment(`${removed} folders were taken away`)
  },
)

t.test('no message id and no stage leads to another place', async (t) => {
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
  t.pass()
})

t.test('what is in the directory beside messages is none of them', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  await mkdir(join(directory, 'lost+found'))
  await writeFile(join(directory, 'README'), '')
  const id = randomUUID()
  await store.put(id, 'headers', Buffer.from('bytes'))
  t.same(await collected(store.messageIds()), [id])
})

t.test('drafts that were cut off are listed, and removed alone', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const drafts = join(directory, '.incoming')
  await writeFile(join(drafts, 'one'), 'part')
  await writeFile(join(drafts, 'other'), 'part')
  t.same((await collected(store.unfinished())).toSorted(), ['one', 'other'])
  await store.discard('one')
  await store.discard('one')
  for (const name of ['..', '.', '', '../../..', '/', `../${randomUUID()}`])
    await t.rejects(store.discard(name), /is no draft/)
  t.same(await readdir(drafts), ['other'])
})

t.test('a directory that cannot be used is refused, with the step and the reason', async (t) => {
  const file = join(await temporaryDirectory(t), 'file')
  await writeFile(file, '')
  await t.rejects(LocalStore.open(join(file, 'below')), {
    name: 'StorageError',
    message: /^The payload directory .*file\/below cannot be used: A part of the path is a file.*ENOTDIR/,
  })
})

t.test('what is not mounted is not written beneath its place, and found again when it is', async (t) => {
  const place = await temporaryDirectory(t)
  const directory = join(place, 'payloads')
  await LocalStore.open(directory)
  const id = randomUUID()
  const store = LocalStore.at(directory)
  await rename(directory, join(place, 'away'))
  await mkdir(directory)
  await t.rejects(store.put(id, 'unpacked', Buffer.from('bytes')), {
    name: 'StorageError',
    problem: 'unreachable',
  })
  const missing = `The directory .incoming of the storage is missing: is another file system, or none, mounted here? Mount the one that holds the payloads; if payloads are to be stored here from now on, make .incoming in it or restart (ENOENT, ${join(directory, '.incoming')})`
  const told = { ok: false, step: 'write', problem: missing, kind: 'unreachable' }
  t.same(await store.check(), told, 'and why is told truthfully')
  const item = { messageId: id, stage: 'unpacked' as const, bytes: Buffer.from('bytes') }
  await t.rejects(
    store.put(id, 'received', Readable.from([item.bytes])),
    { name: 'StorageError', reason: missing },
    'of a stream',
  )
  await t.rejects(store.putMany([item]), { name: 'StorageError', reason: missing }, 'of many')
  await t.rejects(collected(store.unfinished()), { name: 'StorageError', reason: missing }, 'of a list')
  t.same(await readdir(directory), [], 'nothing was written to the bare place')
  await rename(join(place, 'away'), directory)
  await store.put(id, 'unpacked', Buffer.from('bytes'))
  t.equal(await readFile(join(directory, id, 'unpacked'), 'utf8'), 'bytes')
})
