import { enableCompileCache } from 'node:module'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import { watchCrashPoints, type CrashPoint } from '../../../runtime/crash-point.ts'
import type { KillPlan } from './kill-plan.ts'

/**
 * Loaded before the service, in each of its threads and in the processes of its folders: ends all of it by SIGKILL when a
 * thread reaches the point of the plan for the n-th time since the plan was made. The plan is a file, named in the URL of
 * this one; without it nothing happens.
 */

const parameters = new URL(import.meta.url).searchParams
const file = parameters.get('plan') ?? ''
// The processes of the folders have no environment.
enableCompileCache(parameters.get('cache') ?? undefined)

const isFolderProcess = process.send !== undefined
/** The type of the instance whose thread this is. */
const thread = isFolderProcess
  ? `folder ${process.argv[2]}`
  : ((workerData as { readonly type?: string } | null)?.type ?? 'main')
const instance = (workerData as { readonly name?: string } | null)?.name ?? null

let current = ''
let hits = 0

function reached(point: CrashPoint): void {
  const text = planned()
  if (text === '') return
  if (text !== current) [current, hits] = [text, 0]
  const plan = JSON.parse(text) as KillPlan
  if (plan.point !== point || (plan.thread !== null && plan.thread !== thread)) return
  if (plan.instance !== null && plan.instance !== instance) return
  hits += 1
  if (hits < plan.hit) return
  writeFileSync(`${file}.draft`, text)
  renameSync(`${file}.draft`, `${file}.done`)
  if (isFolderProcess) process.kill(process.ppid, 'SIGKILL')
  process.kill(process.pid, 'SIGKILL')
}

function planned(): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

watchCrashPoints({ reached, nodeArguments: ['--import', import.meta.url] })
