import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { setUpLoop, startLoop } from '../support/as2-loop.ts'
import { query } from '../../storage/postgres/pool.ts'
import { createTestDatabase } from '../support/database.ts'
import { allMessages, untilDelivered, type ExchangedMessage } from '../support/exchanged-messages.ts'
import { dropFiles, makeFiles, readFiles, type FileSet } from '../support/file-set.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill, type WaybillOptions } from '../support/waybill.ts'
import { sha256Of } from '../storage/payloads/store-contract.ts'
import { S3Server } from './s3-server.ts'

/** The whole process with its payloads in a bucket. */

t.setTimeout(900_000)

interface Settings {
  readonly storage_in_use: { readonly storage_backend: string }
  readonly restart_needed: boolean
}

async function started(t: Test, options: WaybillOptions): Promise<Waybill> {
  const waybill = await Waybill.start(options)
  t.teardown(async () => void (await waybill.stop()))
  return waybill
}

/** A process whose settings say S3, and which was started with them. */
async function begin(t: Test) {
  const server = await S3Server.start(t)
  const { pool, url } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const env = { DATABASE_URL: url, ...server.credentials }
  const before = await started(t, { directory, env })
  const saved = await before.request<Settings>(
    'PUT',
    '/settings',
    server.settings({ storage_local_directory: './payloads' }),
  )
  t.match(saved, { storage_in_use: { storage_backend: 'local' }, restart_needed: true })
  return { server, pool, directory, env, before }
}

/** Runs a start that ends by itself; answers its exit code and what it printed. */
async function refused(t: Test, options: WaybillOptions): Promise<{ code: number | null; lines: string[] }> {
  const { child, output } = await Waybill.spawn(options)
  t.teardown(async () => void child.kill('SIGKILL'))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, lines: output.filter((line) => !line.startsWith('{')) }
}

async function download(waybill: Waybill, id: string, stage: string): Promise<Buffer> {
  const response = await fetch(`${waybill.url}/api/v1/messages/${id}/payload?stage=${stage}`)
  if (response.status !== 200)
    throw new Error(`${stage} of ${id}: ${response.status} ${await response.text()}`)
  return Buffer.from(await response.arrayBuffer())
}

const sorted = (files: FileSet): string[] =>
  [...files].map(([name, digest]) => `${name} ${digest}`).toSorted()

t.test('messages are exchanged with payloads in S3, while its server is killed and comes back', async (t) => {
  const { server, pool, directory, env, before } = await begin(t)
  await before.stop()
  const waybill = await started(t, { directory, env })
  t.match(await waybill.request<Settings>('GET', '/settings'), {
    storage_in_use: server.settings({ storage_local_directory: './payloads' }),
    restart_needed: false,
  })
  const loop = await setUpLoop(waybill, { directory, concurrency: 5 })
  await startLoop(waybill)
  const drop = join(directory, 'drop')
  const files = await makeFiles(drop, 30)
  const large = randomBytes(20_000_000)
  await writeFile(join(drop, 'large.bin'), large)
  const all: FileSet = new Map([...files, ['large.bin', sha256Of(large)]])
  await dropFiles(drop, loop.outbox)
  await until(async () => (await allMessages(waybill)).length >= 10)
  await server.kill()
  await until(async () => (await fetch(`${waybill.url}/api/v1/health`)).status === 503)
  await server.start()
  await untilDelivered(waybill, 2 * all.size)
  t.same(sorted(await readFiles(loop.inbox)), sorted(all), 'every file, once, byte for byte')
  t.equal((await fetch(`${waybill.url}/api/v1/health`)).status, 200)
  t.ok(waybill.running)

  t.comment('Each stage lies at its key')
  await until(async () => (await pool.query('select from journal limit 1')).rowCount === 0)
  const stages = await query<{ id: string; stage: string }>(
    pool,
    'select id, jsonb_object_keys(payloads) as stage from message',
  )
  t.ok(stages.length > 2 * all.size)
  for (const { id, stage } of stages) {
    if (!existsSync(join(server.folder(), 'messages', id, stage)))
      t.fail(`messages/${id}/${stage} is missing`)
  }
  t.same(await readdir(join(directory, 'payloads')), ['.incoming'])
})

t.test(
  'payloads of the local directory are read after the change to S3; a damaged object is never served',
  async (t) => {
    const { server, pool, directory, env, before } = await begin(t)
    await before.request('POST', '/organizations', { name: 'acme' })
    await before.request('POST', '/partners', { name: 'globex' })
    await before.request('POST', '/plugins/configs?type=file-writer', {
      name: 'writer',
      base_directory: join(directory, 'inbox'),
      enabled: false,
      retry_max_attempts: 1,
    })
    const send = (waybill: Waybill, file: Buffer) =>
      waybill.upload<{ id: string }>('/messages', {
        from: 'acme',
        to: 'globex',
        target: 'writer',
        file: new Blob([new Uint8Array(file)]),
      })
    const [small, large] = [randomBytes(1_000), randomBytes(3_000_000)]
    const stored = [await send(before, small), await send(before, large)]
    await until(async () => (await pool.query('select from journal limit 1')).rowCount === 0)
    await before.stop()

    const waybill = await started(t, { directory, env })
    for (const [index, bytes] of [small, large].entries())
      t.ok(
        bytes.equals(await download(waybill, stored[index]?.id ?? '', 'unpacked')),
        'stored before the change',
      )
    const { id } = await send(waybill, large)
    t.ok(large.equals(await download(waybill, id, 'unpacked')), 'stored after it')
    t.ok(existsSync(join(server.folder(), 'messages', id, 'unpacked')))

    await writeFile(join(server.folder(), 'messages', id, 'unpacked'), randomBytes(large.length))
    await t.rejects(download(waybill, id, 'unpacked'), 'it breaks off')
    t.ok(
      waybill.output.some((line) => line.includes('differs from what was stored')),
      'and the log says why',
    )

    t.comment('Nor delivered')
    await waybill.request('PUT', '/plugins/configs/file-writer/writer', { enabled: true })
    await waybill.request('POST', '/services/file-writer/writer/start')
    const deliveryOf = async (message: string) => {
      const found = await waybill.request<ExchangedMessage>('GET', `/messages/${message}`)
      return found.deliveries[0]
    }
    await until(async () => (await deliveryOf(id))?.state === 'failed')
    t.match(await deliveryOf(id), { last_error: `The payload ${id}/unpacked differs from what was stored` })
    for (const { id: other } of stored)
      await until(async () => (await deliveryOf(other))?.state === 'delivered')
    const arrived = [...(await readFiles(join(directory, 'inbox', 'globex'))).values()].toSorted()
    t.same(arrived, [small, large].map(sha256Of).toSorted(), 'what is whole has arrived')
  },
)

t.test('a bucket that is named by the settings', async (t) => {
  const { server, directory, env, before } = await begin(t)
  t.comment('POST /settings/storage/test tries it out')
  t.match(await before.request('POST', '/settings/storage/test'), {
    ok: true,
    storage: { storage_backend: 's3', storage_s3_bucket: 'acme-payloads' },
  })
  t.notOk(existsSync(join(server.folder(), 'messages')), 'and leaves nothing behind')
  await before.request('PUT', '/settings', { storage_s3_bucket: 'nobody' })
  const result = await before.request<{ problem: string }>('POST', '/settings/storage/test')
  t.match(result, { ok: false, step: 'open', problem: 'The bucket does not exist (NoSuchBucket)' })
  await before.request('PUT', '/settings', {
    storage_s3_bucket: 'acme-payloads',
    storage_s3_region: 'us-east-1',
  })
  t.match(await before.request('POST', '/settings/storage/test'), {
    ok: false,
    step: 'open',
    problem: /^The bucket is in another region/,
  })

  t.comment('A start with one that cannot be used is one line that says why, without credentials')
  await before.request('PUT', '/settings', { storage_s3_region: server.settings().storage_s3_region })
  await before.stop()
  const start = `waybill: The S3 bucket acme-payloads (eu-central-1, ${server.endpoint}) cannot be used: open: `
  const cases: readonly (readonly [Record<string, string>, string])[] = [
    [{ AWS_SECRET_ACCESS_KEY: 'wrong-secret' }, 'The secret access key is wrong (SignatureDoesNotMatch)'],
    [{ AWS_ACCESS_KEY_ID: 'wrong-key' }, 'The access key is unknown'],
    [
      { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', HOME: directory },
      'The environment of the process has no credentials',
    ],
  ]
  for (const [wrong, reason] of cases) {
    const { code, lines } = await refused(t, { directory, env: { ...env, ...wrong } })
    t.equal(code, 1)
    t.equal(lines.length, 1)
    t.ok(lines[0]?.startsWith(start + reason), reason)
    t.notMatch(lines.join(), /wrong-|[0-9a-f]{40}/)
  }
  await server.kill()
  const { lines } = await refused(t, { directory, env })
  t.same(lines, [`${start}Nothing listens at the endpoint (ECONNREFUSED)`])
})
