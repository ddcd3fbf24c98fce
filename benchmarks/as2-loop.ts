import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { setUpLoop, startLoop } from '../test/support/as2-loop.ts'
import { Waybill } from '../test/support/waybill.ts'
import { startOpenAs2Loop } from './openas2-loop.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { median, quantile } from './statistics.ts'
import { usageOf, type Usage } from './usage.ts'

const LOOK_MS = 200
const TIME_LIMIT_MS = 10 * 60_000
const PAGE = 500
const ROUNDS = 3
/** OpenAS2 gets fewer messages a round, as it takes longer for each. */
const PEER_SHARE = 5
const LEAST_OF_OPENAS2 = 6

interface Message {
  readonly id: string
  readonly direction: 'inbound' | 'outbound'
  readonly status: string
  readonly created_at: string
  readonly settled_at: string
  readonly history: readonly {
    readonly created_at: string
    readonly kind: string
    readonly new_state?: string
  }[]
}

/**
 * Files of 10 KB (EDI-like text: it compresses) through poller, sender, receiver and writer of one process, signed,
 * encrypted, compressed, with signed synchronous receipts; every record and payload durable. In turn with OpenAS2, where it
 * is installed, as its distribution is set up: both companies in one server. `alone`, it sends the files of one folder, one
 * after the other; `abreast`, those of as many folders as Waybill has deliveries under way. Each figure is the median of the rounds.
 *
 * The rate is over the whole way, from the first message's acceptance to the last file's delivery. The latency is
 * that of one delivery over AS2, from its claim to its settlement by the receipt; waiting in the queue is not in it.
 */
export async function as2Loop(options: ScenarioOptions): Promise<Figures> {
  const { messages = 2_000, sizeBytes = 10_240, concurrency = 20 } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  const waybill = await Waybill.start({ directory })
  running.defer(async () => void (await waybill.stop()))
  const loop = await setUpLoop(waybill, { directory, concurrency })
  await startLoop(waybill)
  const openAs2 = await startOpenAs2Loop(concurrency, running)
  if (openAs2 === null) console.log('OpenAS2 is not installed (node test/interop/prepare.ts): without it')
  const peerMessages = Math.ceil(messages / PEER_SHARE)

  await send(waybill, loop.outbox, 'warm', Math.ceil(messages / 10), sizeBytes)
  await openAs2?.alone('warm', peerMessages, sizeBytes)
  await openAs2?.abreast('warm', peerMessages, sizeBytes)
  const rounds: Record<string, number>[] = []
  const peer: { readonly alone: number; readonly abreast: number }[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const earlier = (await statistics(waybill)).length
    const before = await usageOf(waybill.pid)
    await send(waybill, loop.outbox, `run${round}`, messages, sizeBytes)
    const after = await usageOf(waybill.pid)
    rounds.push(figuresOf((await statistics(waybill)).slice(earlier), messages, before, after))
    if (openAs2 !== null)
      peer.push({
        alone: await openAs2.alone(`run${round}`, peerMessages, sizeBytes),
        abreast: await openAs2.abreast(`run${round}`, peerMessages, sizeBytes),
      })
  }
  const figures = Object.fromEntries(
    Object.keys(rounds[0] ?? {}).map((name) => [name, median(rounds.map((round) => round[name] ?? 0))]),
  )
  const failures: string[] = []
  if (openAs2 !== null) {
    // Of each round its own share: what else the machine has to do changes more slowly than the rounds.
    for (const way of ['alone', 'abreast'] as const) {
      const rates = peer.map((each) => each[way])
      const times = median(rates.map((rate, round) => (rounds[round]?.['messages_per_second'] ?? 0) / rate))
      figures[`openas2_${way}_messages_per_second`] = median(rates)
      figures[`times_openas2_${way}`] = times
      if (times < LEAST_OF_OPENAS2)
        failures.push(`${times.toFixed(2)} times OpenAS2 (${way}), not ${LEAST_OF_OPENAS2}`)
    }
  }
  return {
    parameters: { messages, bytes_each: sizeBytes, deliveries_at_once: concurrency, rounds: ROUNDS },
    figures,
    failures,
  }
}

/** Drops files all at once and waits until each has arrived on the other side. */
async function send(
  waybill: Waybill,
  outbox: string,
  name: string,
  count: number,
  sizeBytes: number,
): Promise<void> {
  // Outside of the watched tree.
  const draft = join(outbox, '..', '..', `draft-${name}`)
  await mkdir(draft, { recursive: true })
  const line = (index: number): string =>
    `LIN+${index}++${randomBytes(6).toString('hex')}:EN'QTY+47:${index % 97}:PCE'MOA+203:${index}.00'\r\n`
  for (let index = 0; index < count; index += 1) {
    let text = ''
    while (text.length < sizeBytes) text += line(text.length)
    await writeFile(join(draft, `${name}-${index}.edi`), text.slice(0, sizeBytes))
  }
  const settled = await countDelivered(waybill)
  await mkdir(outbox, { recursive: true })
  for (let index = 0; index < count; index += 1) {
    await rename(join(draft, `${name}-${index}.edi`), join(outbox, `${name}-${index}.edi`))
  }
  const deadline = performance.now() + TIME_LIMIT_MS
  while ((await countDelivered(waybill)) < settled + 2 * count) {
    if (performance.now() > deadline)
      throw new Error(`Not all messages arrived\n${waybill.output.join('\n')}`)
    await sleep(LOOK_MS)
  }
}

async function countDelivered(waybill: Waybill): Promise<number> {
  const { total } = await waybill.request<{ total: number }>('GET', '/messages?status=Delivered&limit=1')
  return total
}

/** All messages, oldest first. */
async function statistics(waybill: Waybill): Promise<Message[]> {
  const all: Message[] = []
  for (;;) {
    const { messages } = await waybill.request<{ messages: Message[] }>(
      'GET',
      `/messages?limit=${PAGE}&offset=${all.length}`,
    )
    all.push(...messages)
    if (messages.length < PAGE) return all.toReversed()
  }
}

function figuresOf(
  run: readonly Message[],
  messages: number,
  before: Usage,
  after: Usage,
): Record<string, number> {
  const time = (text: string): number => Date.parse(text)
  const beganMs = Math.min(...run.map(({ created_at }) => time(created_at)))
  const endedMs = Math.max(...run.map(({ settled_at }) => time(settled_at)))
  const attemptsMs = run
    .filter(({ direction }) => direction === 'outbound')
    .map(({ history }) => {
      const at = (state: string): number =>
        time(history.find(({ new_state }) => new_state === state)?.created_at ?? '')
      return at('delivered') - at('delivering')
    })
  const seconds = (endedMs - beganMs) / 1000
  return {
    messages_per_second: messages / seconds,
    p50_ms: median(attemptsMs),
    p99_ms: quantile(attemptsMs, 0.99),
    cpu_ms_per_message: ((after.cpuSeconds - before.cpuSeconds) * 1000) / messages,
    peak_memory_mb: after.peakBytes / 1024 / 1024,
    seconds,
  }
}
