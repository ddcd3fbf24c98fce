/** Executes its share of the executions, and says at once what went wrong. */
import { parentPort, workerData } from 'node:worker_threads'
import { Dice } from './dice.ts'
import { isAnswer, makeTargets, type Target } from './targets.ts'
import type { Seed } from './seeds.ts'

export interface Work {
  readonly seed: number
  readonly first: number
  readonly step: number
  readonly end: number
  /** The execution under way, for the thread that watches; one number a worker. */
  readonly progress: Int32Array
  readonly place: number
}

export interface Failure {
  readonly kind: 'failure'
  readonly execution: number
  readonly target: string
  readonly text: string
}

export interface Done {
  readonly kind: 'done'
  readonly executed: Readonly<Record<string, number>>
  /** How many were answered without an error: they reach what lies behind the parsers. */
  readonly taken: number
}

const LIMIT_MS = 1_000
/** A machine may stand still for a second; a parser that does does it again. */
const REPEATS = 2

const work = workerData as Work
const targets = await makeTargets()
const executed: Record<string, number> = {}
let taken = 0
for (let execution = work.first; execution < work.end; execution += work.step) {
  Atomics.store(work.progress, work.place, execution)
  const dice = new Dice(work.seed, execution)
  const target = targetOf(dice.below(100))
  executed[target.name] = (executed[target.name] ?? 0) + 1
  await execute(target, execution, dice)
}
post({ kind: 'done', executed, taken })

function targetOf(percent: number): Target {
  let left = percent
  for (const target of targets) {
    left -= target.share
    if (left < 0) return target
  }
  throw new Error('The shares of the targets are less than a hundred')
}

async function execute(target: Target, execution: number, dice: Dice): Promise<void> {
  let input: Seed | null = null
  try {
    input = await target.prepare(dice)
    const elapsedMs = await timed(target, input, execution)
    if (elapsedMs > LIMIT_MS) await repeat(target, input, execution)
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    fail(target, execution, `${text}\n${input === null ? 'in the making' : told(input)}`)
  }
}

async function repeat(target: Target, input: Seed, execution: number): Promise<void> {
  for (let times = 0; times < REPEATS; times += 1) {
    if ((await timed(target, input, execution)) <= LIMIT_MS) return
  }
  fail(target, execution, `took more than ${LIMIT_MS} ms, again and again\n${told(input)}`)
}

async function timed(target: Target, input: Seed, execution: number): Promise<number> {
  const beganMs = performance.now()
  try {
    await target.run(input, new Dice(work.seed, -execution - 2))
    taken += 1
  } catch (error) {
    if (!isAnswer(error)) throw error
  }
  return performance.now() - beganMs
}

function fail(target: Target, execution: number, text: string): void {
  post({ kind: 'failure', execution, target: target.name, text })
}

function post(message: Failure | Done): void {
  parentPort?.postMessage(message, [])
}

function told({ headers, body }: Seed): string {
  return `${JSON.stringify(headers)}\n${body.toString('base64')}`
}
