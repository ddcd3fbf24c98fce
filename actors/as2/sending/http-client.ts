import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import { allowedLookup, refuseAddressOf, type Refused } from '../../http/addresses.ts'
import { decoded } from './content-coding.ts'
import { BodyWriter, framing, type StreamedBody } from './http-body.ts'
import { RequestTimes, type TimeLimits } from './http-times.ts'
import { LostConnection, lossWitness } from './lost-connection.ts'
import { secureRequest, tlsWitness } from './tls-failure.ts'
import { TOLERANT_PARSER } from '../receiving/request-framing.ts'
import type { TlsSettings } from '../profiles/tls-identity.ts'

/** A partner's answer holds a receipt: a few kilobytes. */
const MAX_ANSWER_BYTES = 1024 * 1024
const EXPECTATION_FAILED = 417
/** RFC 9110 §10.1.1: nobody must wait for ever. */
const CONTINUE_WAIT_MS = 2_000
/** Kept origins; a set that is full begins anew. */
const MAX_UNASKED = 1_000

export const LEAST_TLS_VERSION = 'TLSv1.2' as const

export interface Post extends TimeLimits {
  readonly url: string
  /** Means nothing to an http URL. */
  readonly tls: TlsSettings
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer | StreamedBody
  /** Ends the post with its reason. */
  readonly signal: AbortSignal
  /** Which addresses are not connected to; default those that never are. Of one client the same for one host. */
  readonly isRefused?: Refused
}

export interface Answer {
  readonly status: number
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
  /** The content coding that the body is still in, as it could not be undone; null for none. */
  readonly coding: string | null
}

/**
 * Posts to partners over connections that are kept open. Follows no redirect. A partner may well be within the
 * operator's network; what a machine tells about itself is no partner (see addresses.ts).
 */
export class HttpClient {
  readonly #http: HttpAgent
  readonly #https: HttpsAgent
  /** Origins that do not answer `Expect: 100-continue`, or refuse it. */
  readonly #unasked = new Set<string>()
  readonly #continueWaitMs: number

  /** @param continueWaitMs a server that does not say whether it wants a body gets it after so long. */
  constructor(maxConnections: number, { continueWaitMs = CONTINUE_WAIT_MS } = {}) {
    this.#continueWaitMs = continueWaitMs
    const options = {
      keepAlive: true,
      maxSockets: maxConnections,
      maxFreeSockets: maxConnections,
      timeout: 30_000,
    }
    this.#http = new HttpAgent(options)
    this.#https = new HttpsAgent({ ...options, minVersion: LEAST_TLS_VERSION })
  }

  /**
   * An answer of an error before the body is sent ends the sending. Of any other answer the caller must know whether its
   * body had been taken whole.
   */
  async post(post: Post): Promise<Answer> {
    const url = new URL(post.url)
    refuseAddressOf(url, post.isRefused)
    refuseBrokenHeaders(post.headers)
    const { body } = post
    if (Buffer.isBuffer(body) || !body.asksFirst || this.#unasked.has(url.origin))
      return this.#send(post, url, false)
    const answer = await this.#send(post, url, true)
    if (answer.status !== EXPECTATION_FAILED) return answer
    this.#doNotAsk(url)
    return this.#send(post, url, false)
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }

  /**
   * What was sent over a connection that had been lost meanwhile is sent again, once, over a new one: it has the same
   * Message-ID, by which the partner knows it if it came nevertheless (RFC 9110 §9.2.2).
   */
  async #send(post: Post, url: URL, asks: boolean): Promise<Answer> {
    try {
      return await this.#exchange(post, url, { asks, isNew: false })
    } catch (thrown) {
      if (!(thrown instanceof LostConnection)) throw thrown
      return this.#exchange(post, url, { asks, isNew: true })
    }
  }

  /** @throws LostConnection unless the connection must be new */
  async #exchange(
    post: Post,
    url: URL,
    { asks, isNew }: { readonly asks: boolean; readonly isNew: boolean },
  ): Promise<Answer> {
    const { body, signal, tls } = post
    signal.throwIfAborted()
    const secure = url.protocol === 'https:'
    const expect = asks ? [['Expect', '100-continue']] : []
    const options = {
      method: 'POST',
      // Others that are kept may be lost as well.
      agent: isNew ? false : secure ? this.#https : this.#http,
      minVersion: LEAST_TLS_VERSION,
      lookup: allowedLookup(undefined, post.isRefused),
      ...TOLERANT_PARSER,
      headers: [...post.headers, ...uncoded(post), ['Host', url.host], framing(body), ...expect].flat(),
    }
    const request = secure ? secureRequest(url, tls, options) : httpRequest(url, options)
    const told = secure ? tlsWitness(request, url, tls) : (error: Error): Error => error
    const isLoss = lossWitness(request)
    const abort = (): void => void request.destroy(signal.reason as Error)
    signal.addEventListener('abort', abort)
    try {
      return await new Promise((resolve, reject) => {
        const times = new RequestTimes(request, post, secure ? 'secureConnect' : 'connect')
        request.on('finish', () => crashPoint('as2-sender.sent'))
        const writer = new BodyWriter(request, times)
        request.on('error', (error) => {
          const isOurs = signal.aborted || error === writer.failure
          reject(!isOurs && isLoss(error) ? new LostConnection(error.message, { cause: error }) : told(error))
        })
        request.on('response', (response) => {
          if (!isSuccess(response)) writer.stop()
          void readAnswer(response).then(resolve, reject)
        })
        if (asks && !Buffer.isBuffer(body)) {
          const silent = (): void => this.#doNotAsk(url)
          writer.writeWhenWanted(body, { connected: times.connected, waitMs: this.#continueWaitMs, silent })
        } else writer.write(body)
      })
    } finally {
      signal.removeEventListener('abort', abort)
      // What is left of the body would be taken for the next request.
      if (!request.writableFinished) request.destroy()
    }
  }

  #doNotAsk({ origin }: URL): void {
    if (this.#unasked.size >= MAX_UNASKED) this.#unasked.clear()
    this.#unasked.add(origin)
  }
}

/** A receipt need not be coded (RFC 9110 §12.5.3); a profile may say something else. */
function uncoded({ headers }: Post): [string, string][] {
  return headers.some(([name]) => name.toLowerCase() === 'accept-encoding')
    ? []
    : [['Accept-Encoding', 'identity']]
}

function isSuccess({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300
}

/** A line break in a header would begin another one. The value may be a secret, and is not named. */
function refuseBrokenHeaders(headers: Post['headers']): void {
  for (const [name, value] of headers) {
    if (/^[\t\x20-\x7e\x80-\xff]*$/.test(value) && /^[!#-'*+.^-z|~\w-]+$/.test(name)) continue
    throw new PermanentFailure(
      `The header ${JSON.stringify(name)} holds a line break or another character that no header can`,
    )
  }
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
  const content = await decoded(headerPairs(response.rawHeaders), Buffer.concat(chunks), MAX_ANSWER_BYTES)
  return { status: response.statusCode ?? 0, ...content }
}

/** Node gives raw headers as one flat list of names and values. */
export function headerPairs(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let index = 0; index + 1 < raw.length; index += 2) pairs.push([raw[index] ?? '', raw[index + 1] ?? ''])
  return pairs
}
