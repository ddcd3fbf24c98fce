import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { createLog } from '../runtime/log.ts'
import { startEmbedded } from '../storage/postgres/embedded.ts'
import { Waybill } from '../test/support/waybill.ts'
import { storeMessages } from './million-messages.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { usageOf } from './usage.ts'

/** Requests of each list at each place. */
const REPEATS = 60
const LIMIT_MS = 50
const FOLD_LIMIT_MS = 10 * 60_000
const DAY_MS = 86_400_000

/** Days ago, of the 90 that the messages are spread over. */
const since = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString()

const LISTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  all: {},
  delivered: { status: 'Delivered' },
  error: { status: 'Error' },
  stalled: { status: 'Stalled' },
  in_progress: { status: 'InProgress' },
  awaiting_receipt: { status: 'AwaitingReceipt' },
  from_large: { from: 'acme-1' },
  from_small: { from: 'partner-150' },
  to_large: { to: 'acme-1' },
  to_small: { to: 'partner-150' },
  to_nobody: { to: 'nobody' },
  from_to: { from: 'acme-1', to: 'partner-0' },
  status_from: { status: 'Delivered', from: 'acme-1' },
  status_to: { status: 'Error', to: 'acme-1' },
  status_from_to: { status: 'Refused', from: 'acme-1', to: 'partner-0' },
  since_hour: { since: since(1 / 24) },
  since_week: { since: since(7) },
  since_half: { since: since(45.678) },
  since_ever: { since: since(1000) },
  since_status: { since: since(45.678), status: 'Error' },
  since_from: { since: since(45.678), from: 'acme-1' },
  since_to: { since: since(45.678), to: 'partner-0' },
  since_from_to: { since: since(45.678), from: 'acme-1', to: 'partner-0' },
  since_status_from_to: { since: since(45.678), status: 'Delivered', from: 'acme-1', to: 'partner-0' },
}

/** The requests of lists that are measured, and as many pings as go between them. */
const REQUESTS = Object.keys(LISTS).length * (REPEATS * 3 + REPEATS)

/**
 * Lists of a million messages, as the API answers them: by each filter and combination, at the beginning, in the middle
 * and at the end. Beside them, in the same run, what a request takes that does nothing but one empty statement. Fails
 * when a statement has gone through all messages.
 */
export async function apiLists(options: ScenarioOptions): Promise<Figures> {
  const { messages = 1_000_000 } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true }))
  const server = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  running.defer(() => server.stop())
  const database = new URL(server.superuserUrl)
  database.pathname = new URL(server.url).pathname
  const start = () => Waybill.start({ directory, env: { DATABASE_URL: server.url } })

  const first = await start()
  const beganMs = performance.now()
  await storeMessages(database.href, messages)
  const storedMs = performance.now()
  await folded(database.href)
  const foldedMs = performance.now()
  await first.stop()

  // The counters of a connection are certain when it has ended.
  const before = await scansOf(database.href)
  const waybill = await start()
  const cpuOf = async () => ({
    service: (await usageOf(waybill.pid)).cpuSeconds,
    database: (await usageOf(server.pid)).cpuSeconds,
  })
  let measured: Record<string, number>
  try {
    const began = await cpuOf()
    measured = await measure(waybill.url)
    const ended = await cpuOf()
    const ofEach = (seconds: number): number => (seconds * 1000) / REQUESTS
    measured['service_cpu_ms_per_request'] = ofEach(ended.service - began.service)
    measured['database_cpu_ms_per_request'] = ofEach(ended.database - began.database)
  } finally {
    await waybill.stop()
  }
  const after = await scansOf(database.href)
  if (after.sequential > before.sequential) {
    throw new Error(`Messages were scanned from end to end ${after.sequential - before.sequential} times`)
  }
  return {
    parameters: { messages, lists: Object.keys(LISTS).length, requests_each: REPEATS * 3 },
    figures: {
      ...measured,
      sequential_scans_of_messages: after.sequential - before.sequential,
      index_entries_read_per_request: (after.entries - before.entries) / REQUESTS,
      seconds_to_store: (storedMs - beganMs) / 1000,
      seconds_to_count: (foldedMs - storedMs) / 1000,
    },
  }
}

async function measure(url: string): Promise<Record<string, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const figures: Record<string, number> = {}
  const all: number[] = []
  const limits: number[] = []
  const slow: string[] = []
  await timed(`${url}/api/v1/messages`, agent, 20)
  for (const [name, filter] of Object.entries(LISTS)) {
    limits.push(...(await timed(`${url}/api/v1/health`, agent, REPEATS)))
    const list = `${url}/api/v1/messages?${new URLSearchParams(filter).toString()}`
    const total = await totalOf(list, agent)
    const took: number[] = []
    for (const offset of [0, Math.floor(total / 2), Math.max(0, total - 50)]) {
      took.push(...(await timed(`${list}&offset=${offset}`, agent, REPEATS)))
    }
    figures[`${name}_total`] = total
    figures[`${name}_p50_ms`] = quantile(took, 0.5)
    figures[`${name}_p95_ms`] = quantile(took, 0.95)
    if (quantile(took, 0.95) > LIMIT_MS) slow.push(name)
    all.push(...took)
  }
  agent.destroy()
  return {
    ...figures,
    all_lists_p50_ms: quantile(all, 0.5),
    all_lists_p95_ms: quantile(all, 0.95),
    empty_statement_p50_ms: quantile(limits, 0.5),
    empty_statement_p95_ms: quantile(limits, 0.95),
    [`lists_above_${LIMIT_MS}_ms`]: slow.length,
  }
}

async function timed(url: string, agent: Agent, repeats: number): Promise<number[]> {
  const took: number[] = []
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const beganMs = performance.now()
    await answerOf(url, agent)
    took.push(performance.now() - beganMs)
  }
  return took
}

async function totalOf(url: string, agent: Agent): Promise<number> {
  const { data } = JSON.parse(await answerOf(`${url}&limit=1`, agent)) as { data: { total: number } }
  return data.total
}

async function answerOf(url: string, agent: Agent): Promise<string> {
  const [response] = (await once(get(url, { agent }), 'response')) as [IncomingMessage]
  const body = await text(response)
  if (response.statusCode !== 200) throw new Error(`${url} is answered with ${body}`)
  return body
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length * share)] ?? 0
}

async function withClient<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await act(client)
  } finally {
    await client.end()
  }
}

/** Waits until the service has counted the messages. */
function folded(url: string): Promise<void> {
  return withClient(url, async (client) => {
    const deadline = performance.now() + FOLD_LIMIT_MS
    for (;;) {
      const { rowCount } = await client.query('select from message_change limit 1')
      if (rowCount === 0) return
      if (performance.now() > deadline) throw new Error('The messages are not counted')
      await sleep(100)
    }
  })
}

function scansOf(url: string): Promise<{ sequential: number; entries: number }> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ sequential: number; entries: number }>(
      `select (select seq_scan::float from pg_stat_user_tables where relname = 'message') as sequential,
         (select sum(idx_tup_read)::float from pg_stat_user_indexes where relname = 'message') as entries`,
    )
    const [row] = rows
    if (row === undefined) throw new Error('There are no statistics')
    return row
  })
}
