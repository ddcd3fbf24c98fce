import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { TlsSettings } from './tls-identity.ts'

/** A partner's answer holds a receipt: a few kilobytes. */
const MAX_ANSWER_BYTES = 1024 * 1024

export const LEAST_TLS_VERSION = 'TLSv1.2'

export interface Post {
  readonly url: string
  /** Means nothing to an http URL. */
  readonly tls: TlsSettings
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
  /** To the end of the TLS handshake. */
  readonly connectTimeoutMs: number
  /** From the last byte sent to the end of the answer. */
  readonly responseTimeoutMs: number
}

export interface Answer {
  readonly status: number
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
}

/** Posts to partners over connections that are kept open. Follows no redirect. */
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

  post(post: Post): Promise<Answer> {
    const url = new URL(post.url)
    const secure = url.protocol === 'https:'
    const options = {
      method: 'POST',
      agent: secure ? this.#https : this.#http,
      headers: [...post.headers, ['Host', url.host], ['Content-Length', String(post.body.length)]].flat(),
    }
    // Connections are shared by those alone that show and check the same.
    const request = secure ? httpsRequest(url, { ...options, ...post.tls }) : httpRequest(url, options)
    return new Promise((resolve, reject) => {
      request.on('error', reject)
      boundTimes(request, post, secure ? 'secureConnect' : 'connect')
      request.on('response', (response) => void readAnswer(response).then(resolve, reject))
      request.end(post.body)
    })
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

function boundTimes(
  request: ClientRequest,
  { connectTimeoutMs, responseTimeoutMs }: Post,
  ready: 'connect' | 'secureConnect',
): void {
  const fail = (reason: string) => () => request.destroy(new Error(reason))
  const connecting = setTimeout(fail(`No connection within ${connectTimeoutMs / 1000} s`), connectTimeoutMs)
  let answering: NodeJS.Timeout | undefined
  const connected = (): void => clearTimeout(connecting)
  request.on('socket', (socket) => {
    if (socket.connecting) socket.once(ready, connected)
    else connected()
  })
  request.on('finish', () => {
    answering = setTimeout(fail(`No answer within ${responseTimeoutMs / 1000} s`), responseTimeoutMs)
  })
  request.on('close', () => {
    clearTimeout(connecting)
    clearTimeout(answering)
  })
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
