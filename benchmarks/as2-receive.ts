import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { createLog } from '../runtime/log.ts'
import { startEmbedded, type EmbeddedServer } from '../storage/postgres/embedded.ts'
import { setUpLoop } from '../test/support/as2-loop.ts'
import { Waybill } from '../test/support/waybill.ts'
import type { PostFigures, PostRun } from './as2-poster.ts'
import { prepareMessage } from './as2-prepared.ts'
import { connected, countOf } from './bench-database.ts'
import { startGenerator, type Generator } from './generator.ts'
import { startLimit } from './limit-receiver.ts'
import { startOpenAs2 } from './openas2-receiver.ts'
import type { Receiver } from './receivers.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { median } from './statistics.ts'
import { usageOf } from './usage.ts'

const WARM_ROUNDS = 2
const ROUNDS = 5
/** How many times what each of the others takes. */
const LEAST: Readonly<Record<string, number>> = { limit: 0.5, openas2: 4 }
const MOVED_LIMIT_MS = 10 * 60_000
const LOOK_MS = 50

interface Round extends PostFigures {
  readonly cpuMs: number
  readonly databaseCpuMs: number
  /** From the first message until all payloads are at their place in the store. */
  readonly movedSeconds: number
}

/**
 * Messages of 10 KB a second that a running Waybill takes in, signed, encrypted, each confirmed by a signed synchronous
 * receipt after its commit; the deliveries that come of them are queued for a target that does not run. In turn, on the
 * same PostgreSQL and from the same generator, the minimal program takes the same bytes, and OpenAS2 where it is. A round begins when the payloads
 * of the one before have left the journal, so that nobody pays for another's work. Each figure is the median of the rounds.
 */
export async function as2Receive(options: ScenarioOptions): Promise<Figures> {
  const { messages = 2_000, sizeBytes = 10_240, concurrency = 20 } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  const server = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  running.defer(() => server.stop())
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: server.url } })
  running.defer(async () => void (await waybill.stop()))
  const database = await connected(server, 'waybill', running)
  const loop = await setUpLoop(waybill, { directory })
  await waybill.request('POST', '/services/as2-receiver/receiver/start')
  const generator = startGenerator<PostRun, PostFigures>(new URL('./as2-poster.ts', import.meta.url), running)

  const message = await prepareMessage(
    {
      from: { as2id: 'ACME-AS2', keys: loop.acme.keys },
      to: { as2id: 'GLOBEX AS2', keys: loop.globex.keys },
    },
    sizeBytes,
  )
  const openAs2 = await startOpenAs2({ loop, message }, running)
  if (openAs2 === null) console.log('OpenAS2 is not installed (node test/interop/prepare.ts): without it')
  const receivers: Receiver[] = [
    {
      name: 'waybill',
      url: loop.receiverUrl,
      pid: waybill.pid,
      message,
      signer: loop.globex.keys.certificate,
      count: () => countOf(database, `message where direction = 'inbound' and status = 'InProgress'`),
    },
    await startLimit(server, { loop, message }, running),
    ...(openAs2 === null ? [] : [openAs2]),
  ]
  const rounds = new Map<string, Round[]>(receivers.map(({ name }) => [name, []]))
  for (let round = 0; round < WARM_ROUNDS + ROUNDS; round += 1) {
    for (const receiver of receivers) {
      const figures = await measure(receiver, { generator, server, database, messages, concurrency, round })
      if (round >= WARM_ROUNDS) rounds.get(receiver.name)?.push(figures)
    }
  }
  return {
    parameters: {
      messages_a_round: messages,
      bytes_each: sizeBytes,
      rounds: ROUNDS,
      connections: concurrency,
    },
    ...judged(rounds),
  }
}

interface Circumstances {
  readonly generator: Generator<PostRun, PostFigures>
  readonly server: EmbeddedServer
  /** Waybill's. */
  readonly database: pg.Client
  readonly messages: number
  readonly concurrency: number
  readonly round: number
}

async function measure(receiver: Receiver, circumstances: Circumstances): Promise<Round> {
  const { generator, server, database, messages, concurrency, round } = circumstances
  const { name, url, pid, message, signer } = receiver
  const cpuSeconds = async (of: number): Promise<number> => (await usageOf(of)).cpuSeconds
  const [own, databases] = [await cpuSeconds(pid), await cpuSeconds(server.pid)]
  const storedBefore = await receiver.count?.()
  const beganMs = performance.now()
  const figures = await generator.run({
    url,
    connections: concurrency,
    messages,
    headers: message.headers,
    body: message.body,
    name: `${name}-${round}`,
    receipts: signer === null ? null : { mic: message.mic, signer },
  })
  await untilMoved(database)
  const movedSeconds = (performance.now() - beganMs) / 1000
  const stored = await receiver.count?.()
  if (stored !== undefined && stored !== (storedBefore ?? 0) + messages)
    throw new Error(`${name} confirmed ${messages} messages and has ${stored} after ${storedBefore}`)
  const each = (seconds: number): number => (seconds * 1000) / messages
  return {
    ...figures,
    movedSeconds,
    cpuMs: each((await cpuSeconds(pid)) - own),
    databaseCpuMs: each((await cpuSeconds(server.pid)) - databases),
  }
}

function judged(rounds: ReadonlyMap<string, readonly Round[]>): Pick<Figures, 'figures' | 'failures'> {
  const figures: Record<string, number> = {}
  const failures: string[] = []
  const of = (name: string, figure: (round: Round) => number): number =>
    median((rounds.get(name) ?? []).map(figure))
  for (const name of rounds.keys()) {
    figures[`${name}_per_second`] = of(name, ({ messages, seconds }) => messages / seconds)
    figures[`${name}_p50_ms`] = of(name, ({ p50Ms }) => p50Ms)
    figures[`${name}_p99_ms`] = of(name, ({ p99Ms }) => p99Ms)
    figures[`${name}_cpu_ms_per_message`] = of(name, ({ cpuMs }) => cpuMs)
    figures[`${name}_database_cpu_ms_per_message`] = of(name, ({ databaseCpuMs }) => databaseCpuMs)
    figures[`${name}_generator_cpu_ms_per_message`] = of(
      name,
      ({ cpuSeconds, messages }) => (cpuSeconds * 1000) / messages,
    )
  }
  figures['waybill_with_payloads_in_place_per_second'] = of(
    'waybill',
    ({ messages, movedSeconds }) => messages / movedSeconds,
  )
  // Of each round its own share: what else the machine has to do changes more slowly than the rounds.
  const share = (other: string): number =>
    median(
      (rounds.get('waybill') ?? []).map(
        ({ seconds }, round) => (rounds.get(other)?.[round]?.seconds ?? 0) / seconds,
      ),
    )
  for (const [other, least] of Object.entries(LEAST)) {
    if (!rounds.has(other)) continue
    const times = share(other)
    figures[`times_${other}`] = times
    if (times < least) failures.push(`${times.toFixed(2)} times ${other}, not ${least}`)
  }
  return { figures, failures }
}

/** Waits until the mover has brought every payload to its place. */
async function untilMoved(database: pg.Client): Promise<void> {
  const deadline = performance.now() + MOVED_LIMIT_MS
  for (;;) {
    const { rowCount } = await database.query('select from journal limit 1')
    if (rowCount === 0) return
    if (performance.now() > deadline) throw new Error('The payloads do not leave the journal')
    await sleep(LOOK_MS)
  }
}
