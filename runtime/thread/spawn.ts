import { extname } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Worker, type MessagePort } from 'node:worker_threads'
import type { Birth, FromThread, ToThread } from '../channel/protocol.ts'
import { Requests, type RequestOptions } from '../channel/requests.ts'
import type { Clock } from '../clock.ts'
import { reasonOf } from '../errors.ts'
import { watchHeartbeat, type HeartbeatWatch } from './heartbeat.ts'

/** The entry beside this file, as source or as built. */
const ENTRY = new URL(`./entry${extname(import.meta.url)}`, import.meta.url)
/**
 * The heap of an instance is small, some 20 MB, and lives on: what a message needs is young, and gone with it. As V8 is set
 * by itself, such a heap is always so near to the size at which all of it is collected that it does nothing else, for half
 * of what a message takes. So heaps may grow to three times what they hold, and less of them is kept for what is young.
 */
setFlagsFromString('--heap-growing-percent=200')
const YOUNG_GENERATION_MB = 24
const MAX_REASON_LENGTH = 1_000

/** The last word on a thread. */
export interface ThreadEnd {
  /** Why it ended, for people. */
  readonly reason: string
  /** Where the error was thrown, for the log. */
  readonly stack: string | null
  /** False when the thread could not be ended and was given up. */
  readonly gone: boolean
  /** It could not start because the database was away. */
  readonly isOutage: boolean
}

export interface ThreadOptions {
  readonly birth: Birth
  readonly clock: Clock
  readonly limits: ThreadLimits
  readonly onReady: (threadId: number) => void
  readonly onSeek: (target: string) => void
  readonly onAnnounced: (target: string) => void
  readonly onCondition: (text: string | null) => void
  /** Called once, and nothing after it. */
  readonly onEnd: (end: ThreadEnd) => void
}

interface ThreadLimits {
  readonly heapLimitMb: number
  readonly heartbeatMs: number
  readonly silenceLimitMs: number
  readonly endLimitMs: number
  readonly maxPendingRequests: number
}

/** The outside of an instance's thread. Throws when the thread cannot be made or its birth data cannot be cloned. */
export class Thread {
  readonly #options: ThreadOptions
  readonly #worker: Worker
  readonly #requests: Requests
  readonly #threadId: number
  #heartbeat: HeartbeatWatch | null = null
  #cancelEndLimit: (() => void) | null = null
  #cause: Omit<ThreadEnd, 'gone'> | null = null
  #ended = false

  constructor(options: ThreadOptions) {
    const { birth, clock, limits } = options
    this.#options = options
    this.#worker = new Worker(ENTRY, {
      workerData: birth,
      name: `${birth.type}:${birth.name}`,
      resourceLimits: {
        maxOldGenerationSizeMb: limits.heapLimitMb,
        maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
      },
    })
    this.#threadId = this.#worker.threadId
    this.#requests = new Requests({
      post: (message) => this.#post(message),
      clock,
      maxPending: limits.maxPendingRequests,
    })
    this.#worker.on('message', (message: FromThread) => this.#receive(message))
    this.#worker.on('messageerror', (error) => this.end(`A message could not be read: ${error.message}`))
    this.#worker.on('error', (error) => this.#noteError(error))
    this.#worker.on('exit', (code) => this.#finish(`The thread exited with code ${code}`, true))
  }

  /** Lets the instance finish its work and end. */
  stop(): void {
    this.#post({ kind: 'stop' })
  }

  /** Ends the thread as it is. The first reason given for an end is the one that is told. */
  end(reason: string, stack: string | null = null, isOutage = false): void {
    this.#cause ??= { reason, stack, isOutage }
    if (this.#ended || this.#cancelEndLimit !== null) return
    const { clock, limits } = this.#options
    this.#cancelEndLimit = clock.after(limits.endLimitMs, () =>
      this.#finish(`${reason}, and its thread cannot be ended`, false),
    )
    void this.#worker.terminate()
  }

  request(body: unknown, options: RequestOptions): Promise<unknown> {
    return this.#requests.send(body, options)
  }

  /** To a source: the port to a target, or null while the target does not run. */
  introduce(target: string, port: MessagePort | null): void {
    this.#post({ kind: 'introduction', target, port }, port)
  }

  /** To a target: the port over which a source will announce. */
  connect(source: string, port: MessagePort): void {
    this.#post({ kind: 'connection', source, port }, port)
  }

  announce(count: number): void {
    this.#post({ kind: 'announcement', count })
  }

  /** To a source: why it must take nothing in, or null. */
  holdBack(heldBack: string | null): void {
    this.#post({ kind: 'intake', heldBack })
  }

  #post(message: ToThread, port: MessagePort | null = null): void {
    this.#worker.postMessage(message, port === null ? [] : [port])
  }

  #receive(message: FromThread): void {
    switch (message.kind) {
      case 'heartbeat':
        this.#heartbeat?.beat()
        return
      case 'ready':
        if (this.#cause !== null) return
        this.#watch()
        this.#options.onReady(this.#threadId)
        return
      case 'failed':
        this.end(message.error.message, message.stack, message.error.code === 'DATABASE_UNAVAILABLE')
        return
      case 'stopped':
        this.#cause ??= ended(message.error?.message ?? 'The instance was stopped')
        return
      case 'reply':
        this.#requests.settle(message)
        return
      case 'seek':
        this.#options.onSeek(message.target)
        return
      case 'announced':
        this.#options.onAnnounced(message.target)
        return
      case 'condition':
        this.#options.onCondition(message.text)
        return
    }
  }

  /** Before `ready` the start's own limit holds: loading code keeps an event loop from turning. */
  #watch(): void {
    const { clock, limits } = this.#options
    this.#heartbeat = watchHeartbeat(clock, limits, () =>
      this.end(`The thread gave no sign of life for ${limits.silenceLimitMs / 1000} s`),
    )
  }

  #noteError(error: unknown): void {
    this.#cause ??= isOutOfMemory(error)
      ? ended(`The thread ran out of memory (limit ${this.#options.limits.heapLimitMb} MB)`)
      : ended(`Uncaught error: ${reasonOf(error)}`, error instanceof Error ? (error.stack ?? null) : null)
  }

  #finish(otherwise: string, gone: boolean): void {
    if (this.#ended) return
    this.#ended = true
    this.#heartbeat?.end()
    this.#cancelEndLimit?.()
    const { reason, stack, isOutage } = gone ? (this.#cause ?? ended(otherwise)) : ended(otherwise)
    const told = reason.slice(0, MAX_REASON_LENGTH)
    this.#requests.close(`The instance ended: ${told}`)
    this.#options.onEnd({ reason: told, stack, gone, isOutage })
  }
}

function ended(reason: string, stack: string | null = null): Omit<ThreadEnd, 'gone'> {
  return { reason, stack, isOutage: false }
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
}
