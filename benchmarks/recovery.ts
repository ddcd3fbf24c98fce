import { mkdtemp, mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { createLog } from '../runtime/log.ts'
import { startEmbedded } from '../storage/postgres/embedded.ts'
import { Waybill } from '../test/support/waybill.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { median } from './statistics.ts'
import { storeWaiting, TARGET } from './waiting-deliveries.ts'

const LIMIT_SECONDS = 5
const REPEATS = 5
const LOOK_MS = 2
/** Work goes on so long before the next kill, so that there are claims to be taken back. */
const DELIVERED_BEFORE_KILL = 50
const PATIENCE_MS = 120_000

/**
 * Seconds from the start of the process to the first delivery, after a SIGKILL with so many deliveries waiting, and with
 * the claims that the killed one held. The database is a server of its own, as in an installation of several nodes.
 */
export async function recovery(options: ScenarioOptions): Promise<Figures> {
  const { messages = 100_000 } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  const server = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  running.defer(() => server.stop())
  const start = () => Waybill.start({ directory, env: { DATABASE_URL: server.url } })

  const first = await start()
  await mkdir(join(directory, 'out'))
  await first.request('POST', '/plugins/configs?type=file-writer', {
    name: TARGET,
    base_directory: join(directory, 'out'),
    path_pattern: '{id}',
    max_concurrent_deliveries: 20,
  })
  await first.stop()
  await storeWaiting(superuserOf(server), { count: messages, payloads: true })

  const database = new pg.Client(server.url)
  await database.connect()
  running.defer(() => database.end())
  let waybill = await start()
  const seconds: number[] = []
  const listening: number[] = []
  try {
    for (let repeat = 0; repeat < REPEATS; repeat += 1) {
      await untilDelivered(database, (await deliveredCount(database)) + DELIVERED_BEFORE_KILL)
      await waybill.kill()
      const before = await deliveredCount(database)
      const beganMs = performance.now()
      const since = (): number => (performance.now() - beganMs) / 1000
      const starting = start().finally(() => listening.push(since()))
      await untilDelivered(database, before + 1)
      seconds.push(since())
      waybill = await starting
    }
  } finally {
    await waybill.kill()
  }
  const figures = {
    seconds_to_first_delivery: median(seconds),
    worst_seconds: Math.max(...seconds),
    seconds_to_listening: median(listening),
  }
  if (figures.seconds_to_first_delivery > LIMIT_SECONDS)
    throw new Error(`The first delivery came too late: ${JSON.stringify(figures)}`)
  return { parameters: { deliveries_waiting: messages, kills: REPEATS }, figures }
}

function superuserOf(server: { readonly url: string; readonly superuserUrl: string }): string {
  const url = new URL(server.superuserUrl)
  url.pathname = new URL(server.url).pathname
  return url.href
}

/** How many the target has delivered: the first in the queue are, so counting them goes no further. */
async function deliveredCount(database: pg.Client): Promise<number> {
  const { rows } = await database.query<{ count: string }>(
    `select count(*) from delivery where state = 'delivered'`,
  )
  return Number(rows[0]?.count)
}

async function untilDelivered(database: pg.Client, count: number): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while ((await deliveredCount(database)) < count) {
    if (performance.now() > deadline) throw new Error('Nothing was delivered')
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}
