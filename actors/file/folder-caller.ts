import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { crashWatchArguments } from '../../runtime/crash-point.ts'
import type { Log } from '../../runtime/log.ts'
import { siblingFile } from '../../runtime/module.ts'
import { PermanentFailure } from '../../storage/exchange/retry.ts'
import type { FolderReply, FolderRequest, ReplyFailure } from './folder-process.ts'

/** A folder that does not answer for so long is told to the operator. */
const SLOW_MS = 15_000
/** How long an operation in hand may still take when the instance stops. */
const END_MS = 5_000

/** Calls the operations of a folder (such as `PollerOperations`), wherever they are carried out. */
export type Caller<Known> = <Name extends keyof Known>(
  operation: Name,
  argument: Known[Name] extends (argument: infer Argument) => unknown ? Argument : never,
) => Promise<Known[Name] extends (argument: never) => infer Answer ? Awaited<Answer> : never>

export interface FolderCallerOptions {
  readonly role: 'poller' | 'writer'
  /** The argument of the operation `open`, which comes first, whenever the process begins anew. */
  readonly opening: unknown
  readonly log: Log
  /** The program that is run. */
  readonly program?: URL
  readonly slowMs?: number
}

interface Pending {
  readonly settled: Promise<unknown>
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: Error) => void
}

/** The parent's side of folder-process.ts. A process that has ended is replaced with the next call. */
export class FolderCaller<Known> {
  readonly #options: Required<FolderCallerOptions>
  readonly #pending = new Map<number, Pending>()
  #child: ChildProcess | null = null
  #opened: Promise<unknown> | null = null
  #lastId = 0
  #closed = false

  constructor(options: FolderCallerOptions) {
    this.#options = { program: siblingFile(import.meta.url, './folder-process'), slowMs: SLOW_MS, ...options }
  }

  readonly call: Caller<Known> = async (operation, argument) => {
    if (this.#closed) throw new Error('The instance has stopped')
    if (this.#child === null) {
      this.#opened = this.#open(this.#start())
      this.#opened.catch(() => undefined)
    }
    if (operation === 'open') return (await this.#opened) as never
    await this.#opened
    return (await this.#ask(String(operation), argument)) as never
  }

  /** Of the process, while there is one. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** What is in hand may end for a few seconds; then it is left to itself, and nobody waits for it any more. */
  async close(): Promise<void> {
    this.#closed = true
    const child = this.#child
    if (child === null) return
    const ended = Promise.withResolvers<void>()
    const limit = setTimeout(ended.resolve, END_MS)
    void Promise.allSettled([...this.#pending.values()].map(({ settled }) => settled)).then(() =>
      ended.resolve(),
    )
    await ended.promise
    clearTimeout(limit)
    if (child.connected) child.disconnect()
    child.kill('SIGKILL')
    this.#gone(child, 'The instance has stopped')
  }

  /** Folders that could not be opened are opened anew by the next call. */
  async #open(child: ChildProcess): Promise<unknown> {
    try {
      return await this.#ask('open', this.#options.opening)
    } catch (error) {
      child.kill('SIGKILL')
      this.#gone(child, 'The folders could not be opened')
      throw error
    }
  }

  #start(): ChildProcess {
    const { program, role } = this.#options
    const child = fork(fileURLToPath(program), [role], {
      // Nothing of ours: neither credentials nor what changes how Node.js runs.
      env: {},
      execArgv: crashWatchArguments(),
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    this.#child = child
    // One that hangs keeps nobody from ending.
    child.unref()
    child.channel?.unref()
    child.on('message', (reply) => this.#receive(reply as FolderReply))
    child.on('error', (error) => this.#gone(child, error.message))
    child.on('exit', (code, signal) => this.#gone(child, signal ?? `exit code ${code}`))
    return child
  }

  async #ask(operation: string, argument: unknown): Promise<unknown> {
    const { log, slowMs } = this.#options
    const child = this.#child
    if (child === null) throw new Error('The process of the folder has ended')
    this.#lastId += 1
    const id = this.#lastId
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending.set(id, { resolve, reject, settled: promise })
    child.channel?.ref()
    let isSlow = false
    const slow = setTimeout(() => {
      isSlow = true
      log.error({ operation }, `the folder has not answered for ${slowMs / 1000} s, the instance waits`)
    }, slowMs)
    try {
      const request: FolderRequest = { id, operation, argument }
      child.send(request, (error) => {
        if (error !== null) reject(error)
      })
      return await promise
    } finally {
      clearTimeout(slow)
      this.#pending.delete(id)
      if (this.#pending.size === 0) child.channel?.unref()
      if (isSlow) log.info({ operation }, 'the folder answers again')
    }
  }

  #receive(reply: FolderReply): void {
    const pending = this.#pending.get(reply.id)
    if (reply.ok) pending?.resolve(reply.answer)
    else pending?.reject(errorOf(reply.failure))
  }

  #gone(child: ChildProcess, reason: string): void {
    if (child !== this.#child) return
    this.#child = null
    for (const { reject } of this.#pending.values())
      reject(new Error(`The process of the folder has ended: ${reason}`))
  }
}

/** A failure as it crossed the border between two processes. */
export function errorOf({ code, message, permanent }: ReplyFailure): Error {
  return permanent === true ? new PermanentFailure(message) : Object.assign(new Error(message), { code })
}
