import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { crashPoint } from '../../runtime/crash-point.ts'
import { allowedLookup, refuseAddressOf } from '../http/addresses.ts'
import type { TlsSettings } from './tls-identity.ts'

/** A partner's answer holds a receipt: a few kilobytes. */
const MAX_ANSWER_BYTES = 1024 * 1024
/** The body is handed to the connection in such parts, and each of them must be taken in time. */
const PART_BYTES = 64 * 1024
/** A partner that takes less than this in the long run would hold a place for ever. */
const LEAST_BYTES_PER_SECOND = 8 * 1024

export const LEAST_TLS_VERSION = 'TLSv1.2'

export interface Post {
  readonly url: string
  /** Means nothing to an http URL. */
  readonly tls: TlsSettings
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
  /** To the end of the TLS handshake. */
  readonly connectTimeoutMs: number
  /** For the partner to take the next part of the body, and from the last byte sent to the end of the answer. */
  readonly responseTimeoutMs: number
  /** Ends the post with its reason. */
  readonly signal: AbortSignal
}

export interface Answer {
  readonly status: number
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
}

/**
 * Posts to partners over connections that are kept open. Follows no redirect. A partner may well be within the
 * operator's network; what a machine tells about itself is no partner (see addresses.ts).
 */
export class HttpClient {
  readonly #http: HttpAgent
  readonly #https: HttpsAgent

  constructor(maxConnections: number) {
    const options = {
      keepAlive: true,
      maxSockets: maxConnections,
      maxFreeSockets: maxConnections,
      timeout: 30_000,
    }
    this.#http = new HttpAgent(options)
    this.#https = new HttpsAgent({ ...options, minVersion: LEAST_TLS_VERSION })
  }

  async post(post: Post): Promise<Answer> {
    post.signal.throwIfAborted()
    const url = new URL(post.url)
    refuseAddressOf(url)
    const secure = url.protocol === 'https:'
    const options = {
      method: 'POST',
      agent: secure ? this.#https : this.#http,
      lookup: allowedLookup(),
      headers: [...post.headers, ['Host', url.host], ['Content-Length', String(post.body.length)]].flat(),
    }
    // Connections are shared by those alone that show and check the same.
    const request = secure ? httpsRequest(url, { ...options, ...post.tls }) : httpRequest(url, options)
    const abort = (): void => void request.destroy(post.signal.reason as Error)
    post.signal.addEventListener('abort', abort)
    try {
      return await new Promise((resolve, reject) => {
        request.on('error', reject)
        const progress = boundTimes(request, post, secure ? 'secureConnect' : 'connect')
        request.on('response', (response) => void readAnswer(response).then(resolve, reject))
        writeParts(request, post.body, progress)
      })
    } finally {
      post.signal.removeEventListener('abort', abort)
    }
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

/** The answer is to be called whenever the partner has taken a part of the body. */
function boundTimes(
  request: ClientRequest,
  { connectTimeoutMs, responseTimeoutMs, body }: Post,
  ready: 'connect' | 'secureConnect',
): () => void {
  const fail = (reason: string) => () => request.destroy(new Error(reason))
  let timer = setTimeout(fail(`No connection within ${connectTimeoutMs / 1000} s`), connectTimeoutMs)
  const longestMs = connectTimeoutMs + 2 * responseTimeoutMs + (body.length / LEAST_BYTES_PER_SECOND) * 1000
  const whole = setTimeout(fail('The partner takes the message too slowly'), longestMs)
  let isConnected = false
  const begin = (): void => {
    isConnected = true
    clearTimeout(timer)
    timer = setTimeout(fail(`No answer within ${responseTimeoutMs / 1000} s`), responseTimeoutMs)
  }
  request.on('socket', (socket) => {
    if (socket.connecting) socket.once(ready, begin)
    else begin()
  })
  const progress = (): void => void (isConnected && timer.refresh())
  request.on('finish', () => {
    crashPoint('as2-sender.sent')
    progress()
  })
  request.on('close', () => {
    clearTimeout(timer)
    clearTimeout(whole)
  })
  return progress
}

/** Writes as fast as the partner takes it. */
function writeParts(request: ClientRequest, body: Buffer, progress: () => void): void {
  let at = 0
  const write = (): void => {
    progress()
    while (at < body.length - PART_BYTES) {
      const part = body.subarray(at, at + PART_BYTES)
      at += PART_BYTES
      if (!request.write(part)) return void request.once('drain', write)
    }
    request.end(body.subarray(at))
  }
  write()
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) {
      response.destroy()
      throw new Error(`The answer is larger than ${MAX_ANSWER_BYTES} bytes`)
    }
    chunks.push(chunk)
  }
  return {
    status: response.statusCode ?? 0,
    headers: headerPairs(response.rawHeaders),
    body: Buffer.concat(chunks),
  }
}

/** Node gives raw headers as one flat list of names and values. */
export function headerPairs(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let index = 0; index + 1 < raw.length; index += 2) pairs.push([raw[index] ?? '', raw[index + 1] ?? ''])
  return pairs
}
