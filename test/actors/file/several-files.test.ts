import { hash, randomBytes, randomUUIDv7 } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { formatMultipart, relatedContentType } from '../../../runtime/mime/multipart-format.ts'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from '../../../storage/exchange/stages.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { startApi } from '../../support/api.ts'
import { temporaryDirectory, until } from '../../support/processes.ts'
import { newMessage } from '../../storage/exchange/fixture.ts'

t.setTimeout(600_000)

const LIMIT_MS = 240_000
const RETRY = { retry_initial_seconds: 1, retry_max_seconds: 1, retry_max_attempts: 100 }

interface Delivery {
  readonly id: number
  readonly state: string
  readonly last_error: string | null
}

interface File {
  readonly fileName: string | null
  readonly content: Buffer
}

/** A writer in its thread, and messages for it. */
async function begin(t: Test, settings: object = {}) {
  const api = await startApi(t)
  const { client, database, supervisor } = api
  const store = await LocalStore.open(api.directory)
  const outside = await temporaryDirectory(t)
  const base = join(outside, 'written')
  await client.create('/organizations', { name: 'acme' })
  const source = { name: 'source', enabled: false, from: 'acme' }
  const folders = { base_directory: join(outside, 'in'), processed_directory: join(outside, 'done') }
  await client.create('/plugins/configs?type=file-poller', { ...source, ...folders })
  const writer = { name: 'writer', base_directory: base, path_pattern: '{filename}', ...RETRY, ...settings }
  await client.create('/plugins/configs?type=file-writer', writer)
  await client.create('/routes', { source_plugin: 'source', target_plugin: 'writer' })
  await client.post('/services/file-writer/writer/start')
  const deliveryOf = async (id: string): Promise<Delivery | undefined> => {
    const { data } = await client.get(`/messages/${id}`)
    return (data['deliveries'] as readonly Delivery[])[0]
  }
  return {
    api,
    deliveryOf,
    send: async (files: readonly File[]): Promise<string> => {
      const id = randomUUIDv7()
      const parts = files.map(({ fileName, content }) => ({
        fileName,
        contentType: 'text/plain',
        open: () => Readable.from([content]),
      }))
      const bytes = await buffer(formatMultipart('=_several', parts))
      let stage: NewStage = journaled('unpacked', bytes)
      if (bytes.length > JOURNAL_LIMIT_BYTES) {
        await store.put(id, 'unpacked', bytes)
        stage = { ...stage, bytes: null }
      }
      const contentType = relatedContentType('=_several', 'text/plain')
      await accept(database.pool, [newMessage({ id, stages: [stage], sizeBytes: bytes.length, contentType })])
      supervisor.announce('writer', 1)
      return id
    },
    until: async (id: string, ...states: readonly string[]): Promise<void> => {
      await until(async () => {
        // No clock runs here that would tell of retries that are due.
        supervisor.announce('writer', 1)
        return states.includes((await deliveryOf(id))?.state ?? '')
      }, LIMIT_MS)
    },
    /** Names with the digests of what the files hold. */
    written: async (): Promise<Record<string, string>> => {
      const entries = await readdir(base, { recursive: true, withFileTypes: true })
      const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes('.waybill'))
      const read = files.map(async ({ parentPath, name }) => {
        const place = join(parentPath, name)
        return [place.slice(base.length + 1), hash('sha256', await readFile(place))] as const
      })
      return Object.fromEntries(await Promise.all(read))
    },
    leftInWorkshop: () => readdir(join(base, '.waybill')),
  }
}

const digests = (files: Readonly<Record<string, Buffer>>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).map(([name, content]) => [name, hash('sha256', content)]))

t.test('each file of a message is written under its own name, small ones and large ones', async (t) => {
  const box = await begin(t)
  const [small, large, empty] = [Buffer.from('UNB'), randomBytes(3_000_000), Buffer.alloc(0)]
  const id = await box.send([
    { fileName: 'order.edi', content: small },
    { fileName: '../../drawing?.pdf', content: large },
    { fileName: null, content: empty },
    { fileName: 'ORDER.EDI', content: large },
  ])
  await box.until(id, 'delivered')
  t.same(
    await box.written(),
    digests({ 'order.edi': small, 'drawing_.pdf': large, [`${id}-3.txt`]: empty, 'ORDER (2).EDI': large }),
  )
  await until(async () => (await box.leftInWorkshop()).length === 0, LIMIT_MS)
})

t.test('a pattern that gives all files one path gives them different names all the same', async (t) => {
  const box = await begin(t, { path_pattern: '{to}/{id}.txt', on_conflict: 'overwrite' })
  const contents = ['one', 'two', 'three'].map((text) => Buffer.from(text))
  const id = await box.send(contents.map((content) => ({ fileName: 'a.txt', content })))
  await box.until(id, 'delivered')
  const [one, two, three] = contents as [Buffer, Buffer, Buffer]
  const place = (number: string): string => `globex/${id}${number}.txt`
  t.same(await box.written(), digests({ [place('')]: one, [place(' (2)')]: two, [place(' (3)')]: three }))
})

t.test('a thousand files of one message', async (t) => {
  const box = await begin(t)
  const files = Array.from({ length: 1_000 }, (_, index) => ({
    fileName: `file-${index}.txt`,
    content: Buffer.from(String(index)),
  }))
  await box.until(await box.send(files), 'delivered')
  t.same(
    await box.written(),
    digests(Object.fromEntries(files.map(({ fileName, content }) => [fileName, content]))),
  )
})

t.test(
  'nothing of a damaged payload is written, and all of it when it is delivered again whole',
  async (t) => {
    const box = await begin(t)
    const contents = [Buffer.from('first'), randomBytes(2_000_000), Buffer.from('last')]
    const files = contents.map((content, index) => ({ fileName: `${index}.bin`, content }))
    await box.api.client.post('/services/file-writer/writer/stop')
    const id = await box.send(files)
    const place = join(box.api.directory, id, 'unpacked')
    const whole = await readFile(place)
    const damaged = Buffer.from(whole)
    damaged[1_000_000] = (damaged[1_000_000] ?? 0) ^ 1
    await writeFile(place, damaged)
    await box.api.client.post('/services/file-writer/writer/start')
    await box.until(id, 'failed')
    t.match((await box.deliveryOf(id))?.last_error, /differs from what was stored/)
    t.same(await box.written(), {})
    await writeFile(place, whole)
    const delivery = await box.deliveryOf(id)
    await box.api.client.post(`/messages/${id}/deliveries/${delivery?.id ?? ''}/redeliver`)
    await box.until(id, 'delivered')
    t.same(Object.keys(await box.written()).toSorted(), ['0.bin', '1.bin', '2.bin'])
  },
)

t.test(
  'with on_conflict fail, a name that is taken fails the delivery and writes none of its files',
  async (t) => {
    const box = await begin(t, { on_conflict: 'fail' })
    const first = await box.send([{ fileName: 'taken.txt', content: Buffer.from('before') }])
    await box.until(first, 'delivered')
    const names = ['a.txt', 'b.txt', 'taken.txt']
    const id = await box.send(names.map((fileName) => ({ fileName, content: Buffer.from('new') })))
    await box.until(id, 'failed')
    t.match((await box.deliveryOf(id))?.last_error, /taken\.txt is there already/)
    t.same(await box.written(), digests({ 'taken.txt': Buffer.from('before') }))
  },
)
