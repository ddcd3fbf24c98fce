import type { ServerResponse } from 'node:http'
import { fastifySSE } from '@fastify/sse'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { EventConnection, EventsAnswer } from '../../runtime/endpoint/endpoint.ts'
import { ERRORS, reasonOf, WaybillError } from '../../runtime/errors.ts'
import type { Authenticate } from './caller.ts'

export interface EventStreamsOptions {
  readonly authenticate: Authenticate
  readonly commentMs: number
}

/** A browser whose stream ended connects again after this time. */
const BEGINNING = Buffer.from('retry: 3000\n\n')
const COMMENT = Buffer.from(': keep-alive\n\n')
const NOTHING = Buffer.alloc(0)

/** Between reverse proxies: nothing is stored, changed (compressed) or held back. */
const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-cache, no-transform',
  'x-accel-buffering': 'no',
  // The stream is the last answer of its connection: where it ends, the connection is closed.
  connection: 'close',
} as const

/** How long a client may take to read what it has not read yet, and the last event. */
const FINISH_LIMIT_MS = 30_000

/** A client that reads nothing between so many comments is cut off, also when nothing happens. */
const MOST_UNREAD_COMMENTS = 3

/**
 * The event streams of the server: their heads, their comments, and their end. What is in them is their endpoints'
 * matter.
 *
 * `@fastify/sse` makes the head and follows the connection. Its ways of sending are not used: they make the text of an
 * event anew for each client, send each event by itself, wait without end for a client that went away unread, and its
 * heartbeats are written whether anybody reads them or not.
 */
export class EventStreams {
  readonly #options: EventStreamsOptions
  readonly #open = new Set<EventStream>()
  #isClosing = false

  private constructor(options: EventStreamsOptions) {
    this.#options = options
  }

  /** Their end is the first thing that happens when the server closes: it would wait for them. */
  static async register(server: FastifyInstance, options: EventStreamsOptions): Promise<EventStreams> {
    await server.register(fastifySSE, { heartbeatInterval: 0 })
    const streams = new EventStreams(options)
    server.addHook('preClose', async () => {
      streams.#isClosing = true
      for (const stream of streams.#open) stream.cutShort()
    })
    return streams
  }

  /** Answers a request. Throws what the endpoint throws. */
  async send(request: FastifyRequest, reply: FastifyReply, answer: EventsAnswer): Promise<FastifyReply> {
    // A request for the head alone opens nothing.
    const begin = request.method === 'HEAD' ? null : await answer.open()
    reply.hijack()
    const stream = new EventStream(reply.raw)
    // The client may have gone away meanwhile: what its stream would use is let go of as of any that ends.
    if (!reply.sse.isConnected) {
      stream.abort()
      begin?.(stream)
      return reply
    }
    reply.code(200).headers(HEADERS)
    reply.sse.sendHeaders()
    // Without more the plugin ends the answer.
    if (begin === null) return reply
    reply.sse.keepAlive()
    this.#open.add(stream)
    reply.sse.onClose(() => {
      this.#open.delete(stream)
      stream.abort()
    })
    this.#follow(stream, request)
    stream.write(BEGINNING)
    begin(stream)
    // A server that closes has ended the others.
    if (this.#isClosing) stream.cutShort()
    return reply
  }

  /** Sends comments, and ends the stream of a client whose credential holds no more. */
  #follow(stream: EventStream, request: FastifyRequest): void {
    const timer = setInterval(() => {
      stream.comment()
      void this.#check(stream, request)
    }, this.#options.commentMs)
    stream.closed.addEventListener('abort', () => clearInterval(timer), { once: true })
  }

  /** What cannot be checked now, such as without the database, is checked at the next comment. */
  async #check(stream: EventStream, request: FastifyRequest): Promise<void> {
    try {
      await this.#options.authenticate(request)
    } catch (thrown) {
      if (!(thrown instanceof WaybillError) || ERRORS[thrown.code].status !== 401) return
      request.log.debug({ reason: reasonOf(thrown), caller: request.caller.name }, 'Event stream ended')
      stream.finish(NOTHING)
    }
  }
}

class EventStream implements EventConnection {
  readonly #raw: ServerResponse
  readonly #closing = new AbortController()
  #unreadComments = 0

  constructor(raw: ServerResponse) {
    this.#raw = raw
  }

  get closed(): AbortSignal {
    return this.#closing.signal
  }

  get isFull(): boolean {
    return this.#raw.writableNeedDrain
  }

  write(events: Uint8Array): void {
    if (!this.closed.aborted) this.#raw.write(events)
  }

  comment(): void {
    this.#unreadComments = this.isFull ? this.#unreadComments + 1 : 0
    if (this.#unreadComments >= MOST_UNREAD_COMMENTS) this.#raw.destroy()
    else if (!this.isFull) this.write(COMMENT)
  }

  onDrain(action: () => void): void {
    this.#raw.on('drain', () => {
      if (!this.closed.aborted) action()
    })
  }

  finish(last: Uint8Array): void {
    if (this.closed.aborted) return
    const raw = this.#raw
    raw.end(last)
    const timer = setTimeout(() => raw.destroy(), FINISH_LIMIT_MS)
    raw.once('close', () => clearTimeout(timer))
    this.abort()
  }

  /** Ends the stream at once. What the client has not read by now it would not read in time. */
  cutShort(): void {
    if (this.isFull || this.closed.aborted) this.#raw.destroy()
    else this.finish(NOTHING)
  }

  /** Nothing is written any more. */
  abort(): void {
    this.#closing.abort()
  }
}
