import { hash, randomBytes, randomUUIDv7 } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from '../../../storage/exchange/stages.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { startApi } from '../../support/api.ts'
import { failingDisk, mountAt, remount, smallDisk } from '../../support/disks.ts'
import { temporaryDirectory, until } from '../../support/processes.ts'
import { newMessage } from '../../storage/exchange/fixture.ts'

t.setTimeout(900_000)

interface Delivery {
  readonly state: string
  readonly last_error: string | null
}

const KIB = 1024

async function begin(t: Test, base: string) {
  const api = await startApi(t)
  const { client, database, supervisor } = api
  const store = await LocalStore.open(t.testdirName)
  const outside = await temporaryDirectory(t)
  await client.create('/organizations', { name: 'acme' })
  await client.create('/plugins/configs?type=file-poller', {
    name: 'source',
    enabled: false,
    base_directory: join(outside, 'in'),
    processed_directory: join(outside, 'done'),
    from: 'acme',
  })
  await client.create('/plugins/configs?type=file-writer', {
    name: 'writer',
    base_directory: base,
    retry_initial_seconds: 1,
    retry_max_seconds: 1,
    retry_max_attempts: 100,
  })
  await client.create('/routes', { source_plugin: 'source', target_plugin: 'writer' })
  await client.post('/services/file-writer/writer/start')
  const delivery = async (id: string): Promise<Delivery | undefined> => {
    const { data } = await client.get(`/messages/${id}`)
    return (data['deliveries'] as readonly Delivery[])[0]
  }
  return {
    delivery,
    send: async (bytes: Buffer): Promise<string> => {
      const id = randomUUIDv7()
      let stage: NewStage = journaled('unpacked', bytes)
      if (bytes.length > JOURNAL_LIMIT_BYTES) {
        await store.put(id, 'unpacked', Readable.from([bytes], { objectMode: false }))
        stage = { stage: 'unpacked', bytes: null, size_bytes: bytes.length, sha256: hash('sha256', bytes) }
      }
      const message = newMessage({ id, stages: [stage], sizeBytes: bytes.length, fileName: 'a.edi' })
      const accepted = await accept(database.pool, [message])
      for (const { targets } of accepted) for (const target of targets) supervisor.announce(target, 1)
      return id
    },
    until: (id: string, ...states: readonly string[]) =>
      until(async () => {
        // No clock runs here that would tell of retries that are due.
        supervisor.announce('writer', 1)
        return states.includes((await delivery(id))?.state ?? '')
      }),
  }
}

/** All files, and what is left of drafts. */
const filesIn = async (base: string): Promise<string[]> =>
  (await readdir(base, { recursive: true, withFileTypes: true }))
    .filter((entry) => !entry.isDirectory())
    .map(({ name }) => name)
    .toSorted()

for (const size of [100 * KIB, 600 * KIB]) {
  void t.test(
    `a full disk refuses a file of ${size / KIB} KiB, keeps nothing of it, and takes it when there is room`,
    async (t) => {
      const base = await smallDisk(t, 1024 * KIB)
      const box = await begin(t, base)
      await writeFile(join(base, 'filler'), randomBytes(1000 * KIB))
      const bytes = randomBytes(size)
      const id = await box.send(bytes)
      await box.until(id, 'retrying')
      t.match((await box.delivery(id))?.last_error, /ENOSPC/)
      t.notOk((await filesIn(base)).includes('a.edi'))
      await rm(join(base, 'filler'))
      await box.until(id, 'delivered')
      t.ok((await readFile(join(base, 'globex', 'a.edi'))).equals(bytes))
      await until(async () => (await filesIn(base)).length === 1)
    },
  )
}

void t.test(
  'a disk that became read-only refuses a file, and takes it when it can be written again',
  async (t) => {
    const base = await smallDisk(t, 1024 * KIB)
    const box = await begin(t, base)
    remount(base, 'ro')
    const id = await box.send(Buffer.from('payload'))
    await box.until(id, 'retrying')
    t.match((await box.delivery(id))?.last_error, /EROFS/)
    t.same(await filesIn(base), [])
    remount(base, 'rw')
    await box.until(id, 'delivered')
    t.equal(await readFile(join(base, 'globex', 'a.edi'), 'utf8'), 'payload')
  },
)

for (const size of [100 * KIB, 3_000 * KIB]) {
  void t.test(
    `a device that fails refuses a file of ${size / KIB} KiB, and takes it when it is back`,
    async (t) => {
      const disk = await failingDisk(t)
      const base = join(disk.path, 'base')
      const box = await begin(t, base)
      await disk.failWriting()
      const bytes = randomBytes(size)
      const id = await box.send(bytes)
      await box.until(id, 'retrying')
      t.match((await box.delivery(id))?.last_error, /EIO/)
      t.notOk((await filesIn(base)).includes('a.edi'))
      await disk.recover()
      await box.until(id, 'delivered')
      t.ok((await readFile(join(base, 'globex', 'a.edi'))).equals(bytes))
      await until(async () => (await filesIn(base)).length === 1)
    },
  )
}

void t.test(
  'what is taken by a disk of its own that is mounted in the folder arrives whole, once',
  async (t) => {
    const base = await temporaryDirectory(t)
    const inner = await smallDisk(t, 1024 * KIB)
    await mkdir(join(base, 'globex'))
    mountAt(t, inner, join(base, 'globex'))
    const box = await begin(t, base)
    const bytes = randomBytes(400 * KIB)
    await writeFile(join(inner, 'filler'), randomBytes(800 * KIB))
    const id = await box.send(bytes)
    await box.until(id, 'retrying')
    t.match((await box.delivery(id))?.last_error, /ENOSPC/)
    t.same(await filesIn(base), ['filler'])
    await rm(join(inner, 'filler'))
    await box.until(id, 'delivered')
    t.ok((await readFile(join(inner, 'a.edi'))).equals(bytes))
    await until(async () => (await filesIn(base)).length === 1)
  },
)
