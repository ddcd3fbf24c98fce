import { once } from 'node:events'
import { request } from 'node:http'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import pg from 'pg'
import { createLog } from '../runtime/log.ts'
import { startEmbedded } from '../storage/postgres/embedded.ts'
import { Waybill } from '../test/support/waybill.ts'
import { WRITERS, type WriterOptions, type Written } from './event-writers.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { median, quantile } from './statistics.ts'
import { usageOf } from './usage.ts'

const LINES_A_TRANSACTION = 3
const ROUNDS = 5
const ROUND_MS = 8_000
const LATENCY_LINES = 100

/**
 * Event streams of many clients of one process, while transactions write history as fast as the database takes them.
 * Rounds with and without clients alternate: the clients' cost is the difference. Every client counts its lines; one
 * that misses a line, or gets one twice or out of order, fails the run. At the end lines are written one by one, and the
 * time is taken from before the statement until the last client has the line.
 */
export async function events(options: ScenarioOptions): Promise<Figures> {
  const { concurrency: count = 500 } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true }))
  const server = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  running.defer(() => server.stop())
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: server.url } })
  running.defer(async () => void (await waybill.stop()))
  const first = await connected(running, server.url)
  await first.query(MESSAGE, [MESSAGE_ID])

  const rounds: { clients: number; lines: number; seconds: number; cpu: number }[] = []
  const memory: number[] = []
  await write(server.url, ROUND_MS / 4)
  for (let round = 0; round < ROUNDS * 2; round += 1) {
    const clients = round % 2 === 0 ? 0 : count
    const followers = await Promise.all(Array.from({ length: clients }, () => Follower.open(waybill.url)))
    const began = await usageOf(waybill.pid)
    const beganMs = performance.now()
    const last = await write(server.url, ROUND_MS)
    const seconds = (performance.now() - beganMs) / 1000
    const cpu = (await usageOf(waybill.pid)).cpuSeconds - began.cpuSeconds
    await Promise.all(followers.map((follower) => follower.reached(last.id)))
    if (clients > 0) memory.push(await residentBytes(waybill.pid))
    for (const follower of followers) follower.close(last.lines)
    rounds.push({ clients, lines: last.lines, seconds, cpu })
  }
  const latencies = await latenciesOf(waybill.url, first, count)
  const of = (clients: number) => rounds.filter((round) => round.clients === clients)
  const rate = (clients: number): number => median(of(clients).map(({ lines, seconds }) => lines / seconds))
  const cores = (clients: number): number => median(of(clients).map(({ cpu, seconds }) => cpu / seconds))
  return {
    parameters: { clients: count, writers: WRITERS, lines_a_transaction: LINES_A_TRANSACTION },
    figures: {
      lines_per_s_without_clients: rate(0),
      lines_per_s_with_clients: rate(count),
      share: rate(count) / rate(0),
      events_per_s_sent: rate(count) * count,
      service_cores_without_clients: cores(0),
      service_cores_with_clients: cores(count),
      memory_after_first_round_bytes: memory[0] ?? 0,
      memory_after_last_round_bytes: memory.at(-1) ?? 0,
      latency_p50_ms: quantile(latencies, 0.5),
      latency_p99_ms: quantile(latencies, 0.99),
    },
  }
}

const MESSAGE_ID = '0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68'
const MESSAGE = `insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type,
  size_bytes, settled_at) values ($1, 'outbound', 'settled', 'Delivered', 'source', 'acme', 'globex', 'x', 'text/plain', 7, now())`
const LINES = `insert into history (message_id, kind, delivery_id, target, old_state, new_state)
  select $1, 'delivery_changed', n, 'as2-out', 'queued', 'delivering' from generate_series(1, $2) n returning id`

async function connected(running: AsyncDisposableStack, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  running.defer(() => client.end())
  return client
}

/** Answers the largest id and how many lines were written. The writers have a thread of their own. */
async function write(url: string, durationMs: number): Promise<Written> {
  const workerData: WriterOptions = {
    url,
    text: LINES,
    values: [MESSAGE_ID, LINES_A_TRANSACTION],
    durationMs,
  }
  const thread = new Worker(new URL('./event-writers.ts', import.meta.url), { workerData })
  const [written] = (await once(thread, 'message')) as [Written]
  return written
}

/** A client that looks at the ids alone: five hundred of them share this process's core with the writers. */
class Follower {
  #lines = 0
  #last = 0
  #rest = ''
  #waiting: { readonly id: number; readonly resolve: () => void } | null = null
  #failure: string | null = null
  readonly #close: () => void

  private constructor(close: () => void) {
    this.#close = close
  }

  static open(url: string): Promise<Follower> {
    return new Promise((resolve, reject) => {
      const asked = request(`${url}/api/v1/events`, { agent: false }, (response) => {
        const follower = new Follower(() => asked.destroy())
        response.setEncoding('latin1')
        response.on('data', (text: string) => follower.#take(text))
        response.on('error', () => undefined)
        resolve(follower)
      })
      asked.on('error', reject)
      asked.end()
    })
  }

  reached(id: number): Promise<void> {
    if (this.#last >= id) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting = { id, resolve }
    })
  }

  close(lines: number): void {
    this.#close()
    if (this.#failure !== null) throw new Error(this.#failure)
    if (this.#lines !== lines) throw new Error(`A client got ${this.#lines} of ${lines} lines`)
  }

  #take(text: string): void {
    const whole = this.#rest + text
    const end = whole.lastIndexOf('\n\n') + 2
    if (end === 1) {
      this.#rest = whole
      return
    }
    let at = whole.indexOf('id: ')
    while (at !== -1 && at < end) {
      const id = Number.parseInt(whole.slice(at + 4, at + 24), 10)
      if (id <= this.#last) this.#failure = `Event ${id} came after ${this.#last}`
      this.#last = id
      this.#lines += 1
      at = whole.indexOf('\nid: ', at) + 1
      if (at === 0) break
    }
    if (whole.includes('event: reload')) this.#failure = 'A client was told to begin anew'
    this.#rest = whole.slice(end)
    if (this.#waiting !== null && this.#last >= this.#waiting.id) this.#waiting.resolve()
  }
}

async function latenciesOf(url: string, writer: pg.Client, count: number): Promise<number[]> {
  const followers = await Promise.all(Array.from({ length: count }, () => Follower.open(url)))
  const took: number[] = []
  for (let line = 0; line < LATENCY_LINES; line += 1) {
    await sleep(Math.random() * 200)
    const beganMs = performance.now()
    const { rows } = await writer.query<{ id: string }>(LINES, [MESSAGE_ID, 1])
    await Promise.all(followers.map((follower) => follower.reached(Number(rows[0]?.id))))
    took.push(performance.now() - beganMs)
  }
  for (const follower of followers) follower.close(LATENCY_LINES)
  return took
}

async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024
}
