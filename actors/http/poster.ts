import { STATUS_CODES } from 'node:http'
import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { crashPoint } from '../../runtime/crash-point.ts'
import { isSeveralFiles } from '../../runtime/mime/attachment.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Consumer, DELIVERED, type AttemptResult } from '../../storage/exchange/consumer.ts'
import { outcomeOfFailure, PermanentFailure } from '../../storage/exchange/retry.ts'
import { openDelivered } from '../../storage/payloads/delivered-payload.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import type { ClaimedDelivery } from '../../storage/sql/claim.ts'
import type { Outcome } from '../../storage/sql/settle.ts'
import { HttpClient, type HttpAnswer } from './client.ts'
import { secondsToWait } from './retry-after.ts'
import type { HttpPosterSettings } from './settings.ts'
import { signatureOf, signingKey } from './signature.ts'

/** Requests under way when the instance stops may end so long; then they are cut off, and made again by the next start. */
const STOP_GRACE_MS = 20_000

/** Runs an `http-poster`: sends each message's payload to a URL. */
export default async function start(context: ActorContext<HttpPosterSettings>): Promise<RunningActor> {
  const { settings, name, log, clock } = context
  const facts = context.process as ProcessFacts
  const { pool, payloads, close } = await openStorage(facts, { log, name, poolSize: 2 })
  const client = new HttpClient(settings.max_concurrent_deliveries, settings.refused_networks)
  const cutOff = new AbortController()
  const { product } = facts
  const poster = new Poster({ pool, payloads, client, product, settings, clock, signal: cutOff.signal })
  const consumer = Consumer.start({
    context,
    pool,
    concurrency: settings.max_concurrent_deliveries,
    retry: settings,
    deliver: (delivery) => poster.deliver(delivery),
  })
  return {
    stop: async () => {
      const grace = setTimeout(
        () => cutOff.abort(new Error('The instance was stopped before the answer came')),
        STOP_GRACE_MS,
      )
      await consumer.stop()
      clearTimeout(grace)
      client.close()
      await close()
    },
  }
}

interface PosterOptions {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly client: HttpClient
  /** The User-Agent. */
  readonly product: string
  readonly settings: HttpPosterSettings
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** The server asks to come again, and may say when. */
class Unavailable extends Error {
  override readonly name = 'Unavailable'
  readonly waitSeconds: number

  constructor(message: string, waitSeconds: number) {
    super(message)
    this.waitSeconds = waitSeconds
  }
}

class Poster {
  readonly #options: PosterOptions

  constructor(options: PosterOptions) {
    this.#options = options
  }

  async deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    try {
      const answer = await this.#send(delivery)
      crashPoint('http-poster.answered')
      if (answer.status >= 200 && answer.status < 300) return DELIVERED
      throw this.#failureOf(answer)
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      return { ...DELIVERED, outcome: this.#outcomeOf(error, delivery.attempts) }
    }
  }

  async #send(delivery: ClaimedDelivery): Promise<HttpAnswer> {
    const { pool, payloads, client, settings, signal } = this.#options
    const stage = delivery.payloads['unpacked']
    if (stage === undefined) throw new PermanentFailure('The message has no payload')
    return client.send({
      method: settings.method,
      url: settings.url,
      headers: await this.#headersOf(delivery),
      bodyBytes: stage.size_bytes,
      body: await openDelivered(pool, payloads, delivery),
      connectTimeoutMs: settings.connect_timeout_seconds * 1000,
      responseTimeoutMs: settings.response_timeout_seconds * 1000,
      signal,
    })
  }

  async #headersOf(delivery: ClaimedDelivery): Promise<[string, string][]> {
    const { pool, payloads, settings, product, clock } = this.#options
    const { http_headers, http_basic_username, http_basic_password, signing_secret } = settings
    const headers: [string, string][] = http_headers.map(({ name, value }) => [name, value])
    if (!headers.some(([name]) => name.toLowerCase() === 'user-agent')) headers.push(['User-Agent', product])
    headers.push(['Content-Type', contentTypeOf(delivery, settings)])
    if (http_basic_username !== '') {
      const credential = Buffer.from(`${http_basic_username}:${http_basic_password}`).toString('base64')
      headers.push(['Authorization', `Basic ${credential}`])
    }
    // The same for every repeat, by which the receiver knows it.
    const id = `${delivery.message_id}-${delivery.id}`
    const timestamp = Math.floor(clock.now().getTime() / 1000)
    headers.push(['webhook-id', id], ['webhook-timestamp', String(timestamp)])
    if (signing_secret !== '') {
      // The signature is a header and so comes before the body: the body is read twice, and never held.
      const body = await openDelivered(pool, payloads, delivery)
      const signature = await signatureOf({ key: signingKey(signing_secret), id, timestamp, body })
      headers.push(['webhook-signature', signature])
    }
    return headers
  }

  #failureOf({ status, headers }: HttpAnswer): Error {
    const answered = `The server answered ${[status, STATUS_CODES[status]].join(' ').trim()}`
    if (status >= 300 && status < 400)
      return new PermanentFailure(`${answered}, and redirects are not followed`)
    if (status >= 400 && status < 500 && ![408, 425, 429].includes(status))
      return new PermanentFailure(answered)
    const asked = status === 429 || status === 503 ? headers['retry-after'] : undefined
    const waitSeconds = secondsToWait(asked, headers.date, this.#options.clock.now())
    return waitSeconds === null ? new Error(answered) : new Unavailable(answered, waitSeconds)
  }

  #outcomeOf(error: Error, attempts: number): Outcome {
    const { settings, signal } = this.#options
    if (signal.aborted) return { state: 'queued', error: (signal.reason as Error).message }
    const outcome = outcomeOfFailure(error, attempts, settings, Math.random())
    if (outcome.state !== 'retrying' || !(error instanceof Unavailable)) return outcome
    // Not before the server wants it, and not later than an operator expects.
    const asked = Math.min(error.waitSeconds, settings.retry_max_seconds)
    return { ...outcome, delaySeconds: Math.max(outcome.delaySeconds, asked) }
  }
}

/** Of several files the receiver needs the boundary that they are told apart by, whatever the settings say. */
function contentTypeOf({ content_type }: ClaimedDelivery, settings: HttpPosterSettings): string {
  const own = sendable(content_type)
  return isSeveralFiles(content_type) ? own : settings.content_type || own
}

/** A partner's media type may be no text that a header can carry. */
function sendable(contentType: string): string {
  return /^[\x21-\x7e][\x20-\x7e]*$/.test(contentType) ? contentType : 'application/octet-stream'
}
