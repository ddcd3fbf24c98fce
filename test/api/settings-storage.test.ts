import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { remount, smallDisk } from '../support/disks.ts'
import { isRoot, temporaryDirectory } from '../support/processes.ts'
import { reservePort } from '../support/reserved-port.ts'

t.test('POST /settings/storage/test', async (t) => {
  const { client } = await startApi(t)
  const place = await temporaryDirectory(t)
  const save = async (settings: object): Promise<void> => {
    const { status, text } = await client.put('/settings', settings)
    t.equal(status, 200, text)
  }
  const test = async (): Promise<Record<string, unknown>> => {
    const { status, data, text } = await client.post('/settings/storage/test')
    t.equal(status, 200, text)
    return data
  }
  /** Saves a directory that must fail, and answers the result. */
  const failure = async (directory: string): Promise<Record<string, unknown>> => {
    await save({ storage_local_directory: directory })
    const result = await test()
    t.match(result, { ok: false, step: String, problem: String })
    t.match(result['storage'], { storage_backend: 'local', storage_local_directory: directory })
    return result
  }

  t.test('tests the saved storage, not the one in use, and answers what was tested', async (t) => {
    const directory = join(place, 'saved')
    mkdirSync(directory)
    await save({ storage_local_directory: directory })
    const { elapsed_ms, ...result } = await test()
    t.same(result, {
      ok: true,
      storage: {
        storage_backend: 'local',
        storage_local_directory: directory,
        storage_s3_bucket: '',
        storage_s3_region: '',
        storage_s3_endpoint: '',
      },
    })
    t.ok(Number.isInteger(elapsed_ms) && (elapsed_ms as number) >= 0)
    t.same(readdirSync(directory), [], 'nothing is left behind')
  })

  t.test('needs no body, but the Content-Type', async (t) => {
    const path = '/settings/storage/test'
    const headers = { 'content-type': 'application/json' }
    t.equal((await client.ask('POST', path, { headers })).status, 200)
    t.equal((await client.ask('POST', path)).status, 415)
    t.same((await client.post(path, { storage_backend: 's3' })).error?.details, {
      storage_backend: 'unknown property',
    })
    const get = await client.get(path)
    t.equal(get.status, 405)
    t.equal(get.headers.get('allow'), 'POST')
  })

  t.test('a missing directory is made, as a start would make it, and removed again', async (t) => {
    await save({ storage_local_directory: join(place, 'new', 'deeper', 'deepest') })
    t.match(await test(), { ok: true })
    t.notOk(existsSync(join(place, 'new')))
  })

  t.test('what lies in the directory stays as it is', async (t) => {
    const directory = join(place, 'with-messages')
    const message = join(directory, '0199d0a5-0000-7000-8000-000000000000')
    mkdirSync(message, { recursive: true })
    mkdirSync(join(directory, '.incoming'))
    writeFileSync(join(message, 'unpacked'), 'payload')
    await save({ storage_local_directory: directory })
    t.match(await test(), { ok: true })
    t.same(readdirSync(directory).toSorted(), ['.incoming', '0199d0a5-0000-7000-8000-000000000000'])
    t.same(readdirSync(message), ['unpacked'])
  })

  t.test('tests at the same time do not disturb each other', async (t) => {
    const directory = join(place, 'busy')
    await save({ storage_local_directory: directory })
    const results = await Promise.all(Array.from({ length: 20 }, test))
    t.same(new Set(results.map(({ ok }) => ok)), new Set([true]))
    t.notOk(existsSync(directory))
  })

  t.test('a file in place of the directory, or above it, is told', async (t) => {
    const file = join(place, 'file')
    writeFileSync(file, '')
    for (const directory of [file, join(file, 'below')]) {
      t.match(await failure(directory), { step: 'open', problem: /^A part of the path is a file/ })
    }
  })

  t.test('a directory that cannot be made is told', async (t) => {
    t.match(await failure('/proc/waybill/payloads'), {
      step: 'open',
      problem: /^The directory does not exist and cannot be made/,
    })
    const name = 'n'.repeat(300)
    t.match(await failure(join(place, name)), { step: 'open', problem: /^The path is too long/ })
    const circle = join(place, 'circle')
    symlinkSync(circle, circle)
    t.match(await failure(join(circle, 'x')), { step: 'open', problem: /circles of symbolic links/ })
  })

  t.test('a directory that this account may not write to is told', async (t) => {
    const locked = join(place, 'locked')
    mkdirSync(locked)
    chmodSync(locked, 0o555)
    // Root may write everywhere but where the kernel itself refuses.
    const directory = isRoot ? '/proc/sys' : locked
    t.match(await failure(directory), { step: 'open' })
    chmodSync(locked, 0o755)
  })

  t.test('a full and a read-only file system are told, and left as they were', async (t) => {
    const disk = await smallDisk(t, 65_536)
    // As a process that has worked here for a while.
    mkdirSync(join(disk, '.incoming'))
    t.throws(() => writeFileSync(join(disk, 'fill'), Buffer.alloc(256 * 1024)), { code: 'ENOSPC' })
    t.match(await failure(disk), { step: 'write', problem: /^The file system is full \(ENOSPC/ })
    t.same(readdirSync(disk).toSorted(), ['.incoming', 'fill'])
    t.same(readdirSync(join(disk, '.incoming')), [])
    remount(disk, 'ro')
    t.match(await failure(disk), { step: 'write', problem: /^The file system is read-only \(EROFS/ })
    t.match(await failure(join(disk, 'below')), { step: 'open', problem: /^The file system is read-only/ })
  })

  t.test('an S3 service that does not answer is told, and no credentials with it', async (t) => {
    const { host, port } = await reservePort()
    const s3 = {
      storage_backend: 's3',
      storage_s3_bucket: 'acme-payloads',
      storage_s3_region: 'eu-central-1',
      storage_s3_endpoint: `http://${host}:${port}`,
    }
    await save(s3)
    process.env['AWS_ACCESS_KEY_ID'] = 'an-access-key'
    process.env['AWS_SECRET_ACCESS_KEY'] = 'a-secret-access-key'
    const result = await test()
    t.match(result, { ok: false, step: 'open', problem: /^Nothing listens at the endpoint/, storage: s3 })
    t.notMatch(JSON.stringify(result), /access-key/)
    await save({ storage_backend: 'local' })
  })
})
