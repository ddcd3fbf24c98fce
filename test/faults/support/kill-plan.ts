import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import type { CrashPoint } from '../../../runtime/crash-point.ts'

/** Where a process is to be killed. */
export interface KillPlan {
  readonly point: CrashPoint
  /** The type of the instance whose thread counts; null for any. */
  readonly thread: string | null
  /** The name of that instance; null for any. */
  readonly instance: string | null
  /** 1 is the first time. */
  readonly hit: number
}

/** Says to a running process, and to those that start later, where to end: see kill-at-point.ts. */
export class KillPlans {
  readonly #file: string
  readonly #cache: string

  /** `cache` is a directory of compiled code. */
  constructor(file: string, cache: string) {
    this.#file = file
    this.#cache = cache
  }

  /** How Node.js is told to follow the plans. */
  get nodeArguments(): readonly string[] {
    const program = new URL('./kill-at-point.ts', import.meta.url)
    program.searchParams.set('plan', this.#file)
    program.searchParams.set('cache', this.#cache)
    return ['--import', program.href]
  }

  make(plan: KillPlan): void {
    this.clear()
    writeFileSync(`${this.#file}.made`, JSON.stringify(plan))
    renameSync(`${this.#file}.made`, this.#file)
  }

  /** Where the process was killed since the plan was made; null when it was not, or by somebody else. */
  done(): KillPlan | null {
    const done = `${this.#file}.done`
    return existsSync(done) ? (JSON.parse(readFileSync(done, 'utf8')) as KillPlan) : null
  }

  clear(): void {
    for (const suffix of ['', '.done']) rmSync(this.#file + suffix, { force: true })
  }
}
