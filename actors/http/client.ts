import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { allowedLookup, refuseAddressOf, refusing, resolveBySystem, type Refused } from './addresses.ts'

/** So much of the body of an answer is read, so that the connection can serve again; what it says is hardly of use. */
const MAX_DROPPED_BYTES = 64 * 1024
/** A refusal may be told in a word. */
const KEPT_BYTES = 256
/** Nor is it waited for longer: its status is known. */
const DROP_MS = 2_000
/** A connection that nobody uses is closed after so long. */
const IDLE_MS = 30_000

export interface OutgoingRequest {
  readonly method: 'POST' | 'PUT'
  readonly url: string
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly bodyBytes: number
  /** Has exactly `bodyBytes`. A body that fails in the end is not a request: the last of it is sent when it is known whole. */
  readonly body: Readable
  readonly connectTimeoutMs: number
  /** For the server to take the next part of the body, and from its last byte to the end of the answer. */
  readonly responseTimeoutMs: number
  /** Ends the request with its reason. */
  readonly signal: AbortSignal
  /** Called when all of the request was handed to the connection. */
  readonly onSent?: () => void
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** How the body begins; it may repeat anything that was sent. */
  readonly beginning: string
}

export interface HttpClientOptions {
  /** Never connected to, beside those that never are. */
  readonly refusedNetworks?: readonly string[]
  /** Whether a connection serves again, which saves its set-up; one that was lost meanwhile costs a failure. */
  readonly keepAlive?: boolean
}

/** Sends to configured URLs, over connections that are kept open unless told otherwise. Follows no redirect, and see addresses.ts. */
export class HttpClient {
  readonly #http: HttpAgent
  readonly #https: HttpsAgent
  readonly #isRefused: Refused

  constructor(maxConnections: number, { refusedNetworks = [], keepAlive = true }: HttpClientOptions = {}) {
    this.#isRefused = refusing(refusedNetworks)
    const options = {
      keepAlive,
      maxSockets: maxConnections,
      maxFreeSockets: maxConnections,
      timeout: IDLE_MS,
    }
    this.#http = new HttpAgent(options)
    this.#https = new HttpsAgent({ ...options, minVersion: 'TLSv1.2' })
  }

  /** The answer to a request, whatever its status is. Throws when there is none. */
  async send(request: OutgoingRequest): Promise<HttpAnswer> {
    const { body, headers, signal } = request
    try {
      signal.throwIfAborted()
      const url = new URL(request.url)
      refuseAddressOf(url, this.#isRefused)
      const secure = url.protocol === 'https:'
      const options = {
        method: request.method,
        agent: secure ? this.#https : this.#http,
        lookup: allowedLookup(resolveBySystem, this.#isRefused),
        headers: [
          ...headers,
          ['Host', url.host] as const,
          ['Content-Length', String(request.bodyBytes)] as const,
        ].flat(),
      }
      const sending = secure ? httpsRequest(url, options) : httpRequest(url, options)
      return await exchange(sending, request, secure)
    } finally {
      body.destroy()
    }
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

async function exchange(
  sending: ClientRequest,
  request: OutgoingRequest,
  secure: boolean,
): Promise<HttpAnswer> {
  const answered = Promise.withResolvers<IncomingMessage>()
  sending.on('response', answered.resolve)
  // The listener stays: what fails after the answer must not end the thread.
  sending.on('error', (error) => answered.reject(withReason(error)))
  sending.on('close', () => answered.reject(new Error('The connection was closed without an answer')))
  const abort = (): void => void sending.destroy(request.signal.reason as Error)
  request.signal.addEventListener('abort', abort)
  const watch = boundTimes(sending, request, secure)
  const body = whole(request.body, watch.progress, answered.reject)
  const sent = pipeline(body, sending)
  // What failed was told already: by the request, or by its body.
  sent.catch(() => undefined)
  try {
    const answer = await answered.promise
    const status = answer.statusCode ?? 0
    // A refusal may come before all is sent. A success counts only for the whole.
    if (status >= 200 && status < 300) await sent
    return { status, headers: answer.headers, beginning: await drop(answer) }
  } finally {
    watch.end()
    request.signal.removeEventListener('abort', abort)
    if (!sending.writableFinished) sending.destroy()
  }
}

/** Passes a body on, the last chunk when the body has ended without a failure: only then is a request complete. */
async function* whole(
  body: AsyncIterable<Buffer>,
  progress: () => void,
  failed: (error: unknown) => void,
): AsyncGenerator<Buffer> {
  let held: Buffer | null = null
  try {
    for await (const chunk of body) {
      progress()
      if (held !== null) yield held
      held = chunk
    }
  } catch (error) {
    failed(error)
    throw error
  }
  if (held !== null) yield held
}

interface Watch {
  readonly progress: () => void
  readonly end: () => void
}

function boundTimes(sending: ClientRequest, request: OutgoingRequest, secure: boolean): Watch {
  const { connectTimeoutMs, responseTimeoutMs } = request
  const fail = (reason: string) => (): void => void sending.destroy(new Error(reason))
  let timer = setTimeout(fail(`No connection within ${connectTimeoutMs / 1000} s`), connectTimeoutMs)
  let connected = false
  const begin = (): void => {
    connected = true
    clearTimeout(timer)
    timer = setTimeout(fail(`No answer within ${responseTimeoutMs / 1000} s`), responseTimeoutMs)
  }
  const progress = (): void => void (connected && timer.refresh())
  sending.on('socket', (socket) => {
    if (sending.reusedSocket) begin()
    else socket.once(secure ? 'secureConnect' : 'connect', begin)
  })
  sending.on('finish', () => {
    request.onSent?.()
    progress()
  })
  return { progress, end: () => clearTimeout(timer) }
}

/** Reads the body of an answer. What becomes of it changes nothing: its status is known. Answers how it begins. */
async function drop(answer: IncomingMessage): Promise<string> {
  const limit = setTimeout(() => answer.destroy(), DROP_MS)
  let bytes = 0
  let kept = Buffer.alloc(0)
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (kept.length < KEPT_BYTES) kept = Buffer.concat([kept, chunk.subarray(0, KEPT_BYTES - kept.length)])
      if (bytes > MAX_DROPPED_BYTES) break
    }
  } catch {
    answer.destroy()
  } finally {
    clearTimeout(limit)
  }
  return kept.toString()
}

/** All addresses of a host that failed are one error without a message of its own. */
function withReason(error: Error): Error {
  if (error.message !== '' || !(error instanceof AggregateError)) return error
  const [first] = error.errors as readonly unknown[]
  return first instanceof Error ? first : error
}
