import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { query, type Queryable } from '../../storage/postgres/pool.ts'
import { createTestDatabase } from '../support/database.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { reservePort } from '../support/reserved-port.ts'
import { storeMessages } from '../support/stored-messages.ts'
import { Waybill, type WaybillOptions } from '../support/waybill.ts'

/** 2.11: the settings are read when the process starts; a saved change takes effect after a restart. */

const LIMIT_MS = 90_000

async function started(t: Test, options: WaybillOptions): Promise<Waybill> {
  const waybill = await Waybill.start(options)
  t.teardown(async () => void (await waybill.stop()))
  return waybill
}

/** Runs a command that ends by itself: answers its exit code and what it printed. */
async function ended(t: Test, options: WaybillOptions): Promise<{ code: number | null; lines: string[] }> {
  const { child, output } = await Waybill.spawn(options)
  t.teardown(async () => void child.kill('SIGKILL'))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, lines: output.filter((line) => !line.startsWith('{')) }
}

t.test('delivery_max_dispatches: how often an unclaimed delivery is announced', async (t) => {
  const directory = await temporaryDirectory(t)
  const { url, pool } = await createTestDatabase(t)
  const env = { DATABASE_URL: url }
  const before = await started(t, { directory, env })
  await before.request('PUT', '/settings', { delivery_max_dispatches: 1 })
  const longer = await unclaimedDelivery(pool, '24 minutes')
  const shorter = await unclaimedDelivery(pool, '20 minutes')
  await until(async () => (await longer()) === 'stalled', LIMIT_MS)
  t.equal(await shorter(), 'queued', 'the process still runs with 5')
  await before.stop()

  await started(t, { directory, env })
  await until(async () => (await shorter()) === 'stalled', LIMIT_MS)
})

/** Stores a delivery that has waited so long for a target that is not there; answers how to look at its state. */
async function unclaimedDelivery(pool: Queryable, waited: string) {
  const [message = ''] = await storeMessages(pool, { status: 'InProgress' })
  await query(
    pool,
    `insert into delivery (message_id, target, waiting_since) values ($1, 'nobody', now() - $2::interval)`,
    [message, waited],
  )
  return async (): Promise<string | undefined> => {
    const text = 'select state from delivery where message_id = $1'
    const [delivery] = await query<{ state: string }>(pool, text, [message])
    return delivery?.state
  }
}

interface Settings {
  readonly storage_local_directory: string
  readonly storage_in_use: { readonly storage_backend: string; readonly storage_local_directory: string }
  readonly restart_needed: boolean
}

t.test('storage: another one is used after a restart, and one that cannot be used prevents it', async (t) => {
  const directory = await temporaryDirectory(t)
  const env = { DATABASE_URL: (await createTestDatabase(t)).url }
  const first = await started(t, { directory, env })
  t.ok(existsSync(join(directory, 'payloads')), './payloads in the working directory')

  t.match(await first.request<Settings>('PUT', '/settings', { storage_local_directory: './elsewhere' }), {
    storage_local_directory: './elsewhere',
    storage_in_use: { storage_local_directory: './payloads' },
    restart_needed: true,
  })
  t.match(await first.request('POST', '/settings/storage/test'), { ok: true })
  t.notOk(existsSync(join(directory, 'elsewhere')), 'the test leaves nothing behind')
  await first.stop()

  const second = await started(t, { directory, env })
  t.ok(existsSync(join(directory, 'elsewhere')))
  t.match(await second.request<Settings>('GET', '/settings'), {
    storage_in_use: { storage_local_directory: './elsewhere' },
    restart_needed: false,
  })
  await writeFile(join(directory, 'file'), '')
  await second.request('PUT', '/settings', { storage_local_directory: './file' })
  await second.stop()
  t.match(await ended(t, { directory, env }), {
    code: 1,
    lines: [/^waybill: The payload directory \.\/file cannot be used: open: A part of the path is a file/],
  })

  const rescue = ['settings', 'storage', 'local', './payloads']
  t.same(await ended(t, { directory, env, args: rescue }), {
    code: 0,
    lines: [`From the next start on, payloads are stored in ${join(await realpath(directory), 'payloads')}`],
  })
  const third = await started(t, { directory, env })
  t.match(await third.request<Settings>('GET', '/settings'), {
    storage_local_directory: './payloads',
    restart_needed: false,
  })
  const { code, lines } = await ended(t, { directory, env, args: rescue })
  t.equal(code, 1)
  t.match(lines, [/^waybill: The data directory .* is in use by another process/])
})

t.test(
  'storage: an S3 service that does not answer prevents a start, which says so; a command leads back',
  async (t) => {
    const directory = await temporaryDirectory(t)
    const { host, port } = await reservePort()
    const env = {
      DATABASE_URL: (await createTestDatabase(t)).url,
      AWS_ACCESS_KEY_ID: 'an-access-key',
      AWS_SECRET_ACCESS_KEY: 'a-secret-access-key',
    }
    const first = await started(t, { directory, env })
    await first.request('PUT', '/settings', {
      storage_backend: 's3',
      storage_s3_bucket: 'acme-payloads',
      storage_s3_region: 'eu-central-1',
      storage_s3_endpoint: `http://${host}:${port}`,
    })
    await first.stop()
    const refused = await ended(t, { directory, env })
    t.equal(refused.code, 1)
    t.same(refused.lines, [
      `waybill: The S3 bucket acme-payloads (eu-central-1, http://${host}:${port}) cannot be used: open: Nothing listens at the endpoint (ECONNREFUSED)`,
    ])
    const bad = await ended(t, { directory, env, args: ['settings', 'storage', 'local', ' '] })
    t.same(bad, { code: 1, lines: ['waybill: storage_local_directory: is required for local storage'] })
    const args = ['settings', 'storage', 'local', './payloads']
    t.equal((await ended(t, { directory, env, args })).code, 0)
    const second = await started(t, { directory, env })
    t.match(await second.request('GET', '/settings'), {
      storage_backend: 'local',
      storage_s3_bucket: 'acme-payloads',
      restart_needed: false,
    })
  },
)
