import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type pg from 'pg'
import { createLog } from '../runtime/log.ts'
import { startEmbedded, type EmbeddedServer } from '../storage/postgres/embedded.ts'
import { Waybill } from '../test/support/waybill.ts'
import { connected, urlOf } from './bench-database.ts'
import { REFUSAL_MS, startPartner, startWebhook, type Partner, type Webhook } from './storm-servers.ts'
import { CONTENT, storeWaiting } from './waiting-deliveries.ts'

/** A Waybill for a storm of alerts: a target whose partners are well, and one whose partners are down. */

/** So many; each is a dedupe key of its own. */
export const PARTNERS = 100
const FAILING_AT_ONCE = 60
const SUCCEEDING_AT_ONCE = 10
const PARALLEL_FILES = 50

export interface Site {
  readonly server: EmbeddedServer
  readonly database: pg.Client
  readonly waybill: Waybill
  /** Payloads lie below it. */
  readonly store: string
  readonly well: Partner
  readonly down: Partner
  readonly webhook: Webhook
}

export async function startSite(running: AsyncDisposableStack): Promise<Site> {
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  const server = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  running.defer(() => server.stop())
  const database = await connected(server, 'waybill', running)
  // Waiting for the disk would hide what the notifier takes of the processor.
  await database.query('alter database waybill set synchronous_commit = off')
  const env = { DATABASE_URL: server.url, PUBLIC_URL: 'https://edi.example.com', LOG_LEVEL: 'error' }
  const waybill = await Waybill.start({ directory, env })
  running.defer(async () => void (await waybill.stop()))
  // They are vacuumed before each storm; a worker that begins in the middle of one takes more than the notifier.
  for (const table of ['message', 'delivery', 'history', 'journal'])
    await database.query(`alter table ${table} set (autovacuum_enabled = false)`)
  const well = await startPartner({ status: 200, afterMs: 0 }, running)
  const down = await startPartner({ status: 404, afterMs: REFUSAL_MS }, running)
  for (const [name, { url }, max_concurrent_deliveries] of [
    ['well', well, SUCCEEDING_AT_ONCE],
    ['down', down, FAILING_AT_ONCE],
  ] as const)
    await waybill.request('POST', '/plugins/configs?type=http-poster', {
      name,
      url,
      max_concurrent_deliveries,
    })
  const settings = await waybill.request<{ storage_local_directory: string }>('GET', '/settings')
  const store = resolve(directory, settings.storage_local_directory)
  return { server, database, waybill, store, well, down, webhook: await startWebhook(running) }
}

/** Fills a target's queue; the payloads are in their places, so that the mover takes no part. */
export async function prepare(
  { server, database, store }: Site,
  target: string,
  count: number,
): Promise<void> {
  const { rows } = await database.query<{ count: number }>(
    `select count(*)::integer as count from delivery where target = $1 and state = 'queued'`,
    [target],
  )
  const missing = Math.max(0, count - (rows[0]?.count ?? 0))
  const url = urlOf(server.superuserUrl, 'waybill')
  const ids = await storeWaiting(url, { count: missing, payloads: false, target, partners: PARTNERS })
  while (ids.length > 0) {
    const place = async (id: string): Promise<void> => {
      await mkdir(join(store, id), { mode: 0o700 })
      await writeFile(join(store, id, 'unpacked'), CONTENT)
    }
    await Promise.all(ids.splice(0, PARALLEL_FILES).map(place))
  }
  await database.query('checkpoint')
  // The kernel would write them in the middle of the storm.
  await promisify(execFile)('sync', ['-f', store])
}

/** Rows of the log whose notifier has not done with them. */
export async function waiting({ database }: Site): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    `select count(*)::integer as count from notification where outcome = 'queued'`,
  )
  return rows[0]?.count ?? 0
}
