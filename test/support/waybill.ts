import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { COMPILED, plainCommand } from './processes.ts'

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url))
const START_TIMEOUT_MS = 180_000

/** A test that ends without stopping them must not leave them behind. */
const children = new Set<ChildProcess>()
process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')))

export interface WaybillOptions {
  /** The working directory of the process: data and payloads lie in it. It is made if it is missing. */
  readonly directory: string
  readonly env?: Readonly<Record<string, string>>
  /** The command line; default none, which starts the server. */
  readonly args?: readonly string[]
  /** What Node.js itself is told, before the program; default nothing. */
  readonly nodeArguments?: readonly string[]
}

/** The whole service as its own process, driven over HTTP as a user would. */
export class Waybill {
  /** Such as `http://localhost:8080`. */
  readonly url: string
  readonly #process: ChildProcess
  readonly #output: string[]

  private constructor(process: ChildProcess, url: string, output: string[]) {
    this.#process = process
    this.url = url
    this.#output = output
  }

  /** Starts the service and resolves when it says where it listens. */
  static async start({ directory, env = {} }: WaybillOptions): Promise<Waybill> {
    const { child, output } = await Waybill.spawn({ directory, env })
    const url = await listening(child, output)
    return new Waybill(child, url, output)
  }

  /** Spawns the process without waiting: for starts that are expected to fail. */
  static async spawn({
    directory,
    env = {},
    args = [],
    nodeArguments = [],
  }: WaybillOptions): Promise<{ child: ChildProcess; output: string[] }> {
    await mkdir(directory, { recursive: true })
    const child = spawn(...plainCommand(process.execPath, [...nodeArguments, MAIN, ...args]), {
      cwd: directory,
      env: {
        PATH: process.env['PATH'],
        HTTP_PORT: '0',
        HTTP_HOST: '127.0.0.1',
        WAYBILL_BUILD: 'developer',
        LOG_LEVEL: 'warn',
        DATA_DIRECTORY: join(directory, 'data'),
        ...COMPILED,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl+C in a terminal goes to the whole group of processes; whoever started this one ends it.
      detached: true,
    })
    children.add(child)
    child.once('exit', () => children.delete(child))
    const output: string[] = []
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', (line) => output.push(line))
    }
    return { child, output }
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  /** What it has printed and logged so far, line by line. */
  get output(): readonly string[] {
    return this.#output
  }

  get running(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  /** Asks it to end in order; answers the exit code. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    return this.#end(signal)
  }

  /** Ends it as a power failure would. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    if (this.running) {
      const exited = once(this.#process, 'exit')
      this.#process.kill(signal)
      await exited
    }
    return this.#process.exitCode
  }

  /** One request below `/api/v1`; answers the envelope's `data`, and throws what its error says. */
  async request<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: method === 'GET' ? {} : { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return dataOf<T>(`${method} ${path}`, response)
  }

  async upload<T>(path: string, parts: Readonly<Record<string, string | Blob>>): Promise<T> {
    const form = new FormData()
    for (const [name, value] of Object.entries(parts)) {
      if (typeof value === 'string') form.set(name, value)
      else form.set(name, value, `${name}.bin`)
    }
    const headers = { 'x-requested-with': 'waybill' }
    const response = await fetch(`${this.url}/api/v1${path}`, { method: 'POST', headers, body: form })
    return dataOf<T>(`POST ${path}`, response)
  }
}

async function dataOf<T>(what: string, response: Response): Promise<T> {
  if (response.status === 204) return undefined as T
  const envelope = (await response.json()) as { data: T; error: { code: string; message: string } | null }
  if (envelope.error !== null)
    throw new Error(`${what}: ${response.status} ${JSON.stringify(envelope.error)}`)
  return envelope.data
}

/** Resolves with the address from the line that says it. */
function listening(child: ChildProcess, output: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => {
      child.kill('SIGKILL')
      reject(new Error(`${why}\n${output.join('\n')}`))
    }
    const timer = setTimeout(() => fail('Waybill did not start in time'), START_TIMEOUT_MS)
    child.once('exit', (code) => fail(`Waybill ended with exit code ${code}`))
    if (child.stdout === null) return fail('Waybill has no output')
    createInterface({ input: child.stdout }).on('line', (line) => {
      const url = / listens on (http:\/\/\S+)/.exec(line)?.[1]
      if (url === undefined) return
      clearTimeout(timer)
      child.removeAllListeners('exit')
      resolve(url)
    })
  })
}
