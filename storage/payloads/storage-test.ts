import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { siblingFile } from '../../runtime/module.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { STORAGE_PROBLEMS } from '../storage-error.ts'
import { PROBE_STEPS, type ProbeResult, type ProbeStep } from './probe.ts'

/** Below the ten seconds that a request for a test may take in all. */
const ANSWER_LIMIT_MS = 9_000
/** What is late may still end by itself and tidy up; after this it is killed. */
const KILL_AFTER_MS = 60_000
/** Different storages that are tested at the same time, those among them that hang. */
const MOST_PROBES = 4

export interface StorageTestOptions {
  readonly clock: Clock
  /** The program that tries a storage out. */
  readonly program?: URL
  /** How long to wait for an answer; default 9 s. */
  readonly answerLimitMs?: number
}

const line = z.union([
  z.object({ ok: z.literal(true) }),
  z.object({
    ok: z.literal(false),
    step: z.enum(PROBE_STEPS),
    problem: z.string(),
    kind: z.enum(STORAGE_PROBLEMS).exactOptional(),
  }),
  z.object({ step: z.enum(PROBE_STEPS) }),
])

/** A storage that is tried out, and what its process is given. */
interface Tried {
  readonly name: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
}

/** A test that runs. */
interface Probe {
  readonly name: string
  step: ProbeStep
  /** What it found is told: the next test tries anew, as the storage may be mended since. */
  isTold: boolean
  readonly result: Promise<ProbeResult>
}

/**
 * Tests where payloads would be stored. A process of its own touches the file system: one that hangs, such as that of a
 * server which is away, takes the thread that asks it and keeps its process from ending. A test that comes while the
 * same storage is being tried out shares its result.
 */
export class StorageTest {
  readonly #options: Required<StorageTestOptions>
  /** One is listed until its process is gone. */
  readonly #probes = new Set<Probe>()

  constructor(options: StorageTestOptions) {
    this.#options = {
      program: siblingFile(import.meta.url, './probe-process'),
      answerLimitMs: ANSWER_LIMIT_MS,
      ...options,
    }
  }

  /** Answers in time, whatever the storage does. */
  async run(storage: StorageSettings): Promise<ProbeResult> {
    const tried = triedOf(storage)
    const probe = this.#underWay(tried.name) ?? this.#start(tried)
    if (probe === null)
      return { ok: false, step: 'open', problem: `${MOST_PROBES} earlier tests still wait for their storage` }
    const { clock, answerLimitMs } = this.#options
    const late = Promise.withResolvers<ProbeResult>()
    const cancel = clock.after(answerLimitMs, () => {
      const problem = `The storage did not answer within ${answerLimitMs / 1000} s`
      late.resolve({ ok: false, step: probe.step, problem })
    })
    try {
      return await Promise.race([probe.result, late.promise])
    } finally {
      cancel()
    }
  }

  #underWay(name: string): Probe | undefined {
    return this.#probes.values().find((probe) => probe.name === name && !probe.isTold)
  }

  #start({ name, args, env }: Tried): Probe | null {
    if (this.#probes.size >= MOST_PROBES) return null
    const { program, clock } = this.#options
    const child = spawn(process.execPath, [fileURLToPath(program), ...args], {
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    // It may outlive us.
    child.unref()
    const probe: Probe = {
      name,
      step: 'open',
      isTold: false,
      result: resultOf(child, (step) => {
        probe.step = step
      }).finally(() => {
        probe.isTold = true
      }),
    }
    this.#probes.add(probe)
    const cancel = clock.after(KILL_AFTER_MS, () => child.kill('SIGKILL'))
    void this.#forget(probe, child, cancel)
    return probe
  }

  async #forget(probe: Probe, child: ChildProcess, cancelKill: () => void): Promise<void> {
    await gone(child)
    cancelKill()
    this.#probes.delete(probe)
  }
}

function triedOf(storage: StorageSettings): Tried {
  if (storage.storage_backend === 'local') {
    const directory = resolve(storage.storage_local_directory)
    // Nothing of ours: neither credentials nor what changes how Node.js runs.
    return { name: directory, args: [directory], env: {} }
  }
  const { storage_s3_bucket, storage_s3_region, storage_s3_endpoint } = storage
  const args = [storage_s3_bucket, storage_s3_region, storage_s3_endpoint]
  return { name: JSON.stringify(args), args, env: environmentOfSdk() }
}

/** What is ours and of no use to the AWS SDK. */
const OURS = new Set(['SECRET_KEY', 'NEW_SECRET_KEY', 'AUDIT_KEY', 'DATABASE_URL', 'NODE_OPTIONS'])

/** All that the AWS SDK may find credentials by: its variables, a home, and what the programs need that it may run. */
function environmentOfSdk(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !OURS.has(name)))
}

/** What the process tells, or how it ended. */
async function resultOf(
  child: ChildProcessByStdio<null, Readable, null>,
  began: (step: ProbeStep) => void,
): Promise<ProbeResult> {
  let step: ProbeStep = 'open'
  const ended = gone(child)
  for await (const text of createInterface({ input: child.stdout })) {
    const told = line.parse(JSON.parse(text))
    if ('ok' in told) return told
    step = told.step
    began(step)
  }
  return { ok: false, step, problem: `The test was cut off: ${await ended}` }
}

/** Resolves with how the process ended, or why it did not begin. */
function gone(child: ChildProcess): Promise<string> {
  return new Promise((done) => {
    child.once('error', (error) => done(error.message))
    child.once('exit', (code, signal) => done(signal === null ? `exit code ${code}` : signal))
  })
}
