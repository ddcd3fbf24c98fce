import { availableParallelism } from 'node:os'
import { memoryUsage } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Done, Failure, Work } from './worker.ts'

/** The same seed makes the same changes; the keys of the messages are new each time. */
const SEED = Number(process.env['SEED'] ?? 4130)
const EXECUTIONS = Number(process.env['EXECUTIONS'] ?? 1_000_000)
/** Makes one execution alone. */
const ONLY = process.env['EXECUTION']
/** Of the whole process, with its threads. */
const MEMORY_LIMIT_BYTES = 1.5 * 1024 ** 3
const MAX_THREADS = 2
const HEAP_LIMIT_MB = 256
const LOOK_MS = 1_000
/** One execution that takes so long never ends. */
const STUCK_AFTER_LOOKS = 60
const MAX_FAILURES = 10

t.setTimeout(3_600_000)
t.comment(`SEED=${SEED} EXECUTIONS=${EXECUTIONS}`)

t.test('mutated messages neither crash nor hang a parser, nor make it take much memory', async (t) => {
  const workers = ONLY === undefined ? Math.min(availableParallelism(), MAX_THREADS) : 1
  const progress = new Int32Array(new SharedArrayBuffer(4 * workers))
  const [begin, end] = ONLY === undefined ? [0, EXECUTIONS] : [Number(ONLY), Number(ONLY) + 1]
  const failures: Failure[] = []
  const done: Done[] = []
  const running = new Set<Worker>()
  const ended = Array.from({ length: workers }, (_, place) => {
    const work: Work = { seed: SEED, first: begin + place, step: workers, end, progress, place }
    const worker = new Worker(new URL('./worker.ts', import.meta.url), {
      workerData: work,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_LIMIT_MB },
    })
    running.add(worker)
    worker.on('message', (message: Failure | Done) => {
      if (message.kind === 'done') return void done.push(message)
      failures.push(message)
      if (failures.length >= MAX_FAILURES) for (const each of running) void each.terminate()
    })
    return new Promise<void>((resolve) => {
      worker.on('error', (error) => {
        failures.push({
          kind: 'failure',
          execution: progress[place] ?? 0,
          target: 'thread',
          text: String(error),
        })
      })
      worker.on('exit', () => {
        running.delete(worker)
        resolve()
      })
    })
  })
  const peakBytes = await watch(progress, running)
  await Promise.all(ended)
  for (const { execution, target, text } of failures) {
    t.fail(`SEED=${SEED} EXECUTION=${execution} ${target}`, { text })
  }
  const executed = sumOf(done)
  t.comment(JSON.stringify({ executed, taken: done.reduce((sum, each) => sum + each.taken, 0), peakBytes }))
  const total = Object.values(executed).reduce((sum, each) => sum + each, 0)
  t.equal(total, end - begin, 'each execution came to its end')
  t.ok(peakBytes < MEMORY_LIMIT_BYTES, `${Math.round(peakBytes / 1024 ** 2)} MiB at most`)
})

/** Until all have ended; answers the most memory that was taken. */
async function watch(progress: Int32Array, running: ReadonlySet<Worker>): Promise<number> {
  let peakBytes = 0
  let before = ''
  let looksWithoutProgress = 0
  while (running.size > 0) {
    await sleep(LOOK_MS)
    peakBytes = Math.max(peakBytes, memoryUsage.rss())
    const now = progress.join()
    looksWithoutProgress = now === before ? looksWithoutProgress + 1 : 0
    before = now
    if (looksWithoutProgress >= STUCK_AFTER_LOOKS) for (const worker of running) await worker.terminate()
  }
  return peakBytes
}

function sumOf(done: readonly Done[]): Record<string, number> {
  const sum: Record<string, number> = {}
  for (const { executed } of done) {
    for (const [name, count] of Object.entries(executed)) sum[name] = (sum[name] ?? 0) + count
  }
  return sum
}
