import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { formatCompressedData } from '../actors/as2/protocol/cms/compressed-data.ts'
import { setUpLoop } from '../test/support/as2-loop.ts'
import { Waybill } from '../test/support/waybill.ts'
import type { PostFigures, PostRun } from './as2-poster.ts'
import { prepareMessage } from './as2-prepared.ts'
import type { RubbishFigures, RubbishRun } from './as2-rubbish.ts'
import { startGenerator } from './generator.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { quantile } from './statistics.ts'

const ROUNDS = 3
const ROUND_SECONDS = 10
const PAUSE_MS = 5
const LIMIT_MS = 100
const BOMB_BYTES = 256 * 1024 * 1024
const GOOD_MESSAGES = 100

/**
 * How long `/health` takes, while nothing happens and while 20 connections pour rubbish into a receiver: random bytes,
 * huge headers, broken CMS, zip bombs. At the end the receiver must take good messages as if nothing had happened, and have
 * taken nothing else. The run fails when the 99th percentile is not under 100 ms.
 */
export async function as2Hostile(options: ScenarioOptions): Promise<Figures> {
  const { concurrency = 20, seconds = ROUND_SECONDS } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  const waybill = await Waybill.start({ directory, env: { LOG_LEVEL: 'error' } })
  running.defer(async () => void (await waybill.stop()))
  const loop = await setUpLoop(waybill, { directory })
  await waybill.request('POST', '/services/as2-receiver/receiver/start')
  const { headers, body, mic } = await prepareMessage(
    {
      from: { as2id: 'ACME-AS2', keys: loop.acme.keys },
      to: { as2id: 'GLOBEX AS2', keys: loop.globex.keys },
    },
    10_240,
  )
  const rubbish = startGenerator<RubbishRun, RubbishFigures>(
    new URL('./as2-rubbish.ts', import.meta.url),
    running,
  )
  const bomb = await formatCompressedData(Buffer.alloc(BOMB_BYTES))

  const idle: number[] = []
  const busy: number[] = []
  const counts: RubbishFigures[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    idle.push(...(await healthWhile(waybill, sleep(seconds * 1000))))
    const url = loop.receiverUrl
    const pouring = rubbish.run({ url, connections: concurrency, seconds, headers, body, bomb })
    busy.push(...(await healthWhile(waybill, pouring)))
    counts.push(await pouring)
  }
  const good = startGenerator<PostRun, PostFigures>(new URL('./as2-poster.ts', import.meta.url), running)
  await good.run({
    url: loop.receiverUrl,
    connections: concurrency,
    messages: GOOD_MESSAGES,
    headers,
    body,
    name: 'good',
    receipts: { mic, signer: loop.globex.keys.certificate },
  })
  const { total } = await waybill.request<{ total: number }>('GET', '/messages?status=InProgress&limit=1')
  if (total !== GOOD_MESSAGES) throw new Error(`${total} messages are taken, of ${GOOD_MESSAGES} good ones`)
  const p99 = quantile(busy, 0.99)
  return {
    parameters: { connections: concurrency, seconds_a_round: seconds, rounds: ROUNDS },
    figures: {
      health_idle_p50_ms: quantile(idle, 0.5),
      health_idle_p99_ms: quantile(idle, 0.99),
      health_under_rubbish_p50_ms: quantile(busy, 0.5),
      health_under_rubbish_p99_ms: p99,
      health_under_rubbish_worst_ms: Math.max(...busy),
      ...countsOf(counts),
    },
    failures:
      p99 < LIMIT_MS ? [] : [`/health has a 99th percentile of ${p99.toFixed(0)} ms, not under ${LIMIT_MS}`],
  }
}

function countsOf(rounds: readonly RubbishFigures[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { sent, answered } of rounds) {
    for (const [kind, count] of Object.entries(sent)) {
      if (count === 0) throw new Error(`Nothing of the kind ${kind} was sent`)
      counts[`${kind}_sent`] = (counts[`${kind}_sent`] ?? 0) + count
      counts[`${kind}_answered`] = (counts[`${kind}_answered`] ?? 0) + (answered[kind] ?? 0)
    }
  }
  return counts
}

/** Milliseconds of each request, one after the other on a kept connection, until something ends. */
async function healthWhile(waybill: Waybill, something: Promise<unknown>): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const took: number[] = []
  const over = new AbortController()
  const ended = something.finally(() => over.abort())
  ended.catch(() => undefined)
  while (!over.signal.aborted) {
    const beganMs = performance.now()
    const [response] = (await once(get(`${waybill.url}/api/v1/health`, { agent }), 'response')) as [
      IncomingMessage,
    ]
    const body = await buffer(response)
    if (response.statusCode !== 200) throw new Error(`/health is answered with ${body.toString()}`)
    took.push(performance.now() - beganMs)
    await sleep(PAUSE_MS)
  }
  agent.destroy()
  await ended
  return took
}
