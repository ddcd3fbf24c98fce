import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { crashPoint } from '../../runtime/crash-point.ts'
import { isSeveralFiles } from '../../runtime/mime/attachment.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Consumer, DELIVERED, type AttemptResult } from '../../storage/exchange/consumer.ts'
import { PermanentFailure } from '../../storage/exchange/retry.ts'
import { openDelivered } from '../../storage/payloads/delivered-payload.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import type { ClaimedDelivery } from '../../storage/sql/claim.ts'
import type { Outcome } from '../../storage/sql/settle.ts'
import { failureOf, outcomeOfAnswered } from './answer-failure.ts'
import { HttpClient, type HttpAnswer } from './client.ts'
import { requestHeaders, webhookHeaders, type Header } from './request-headers.ts'
import type { HttpPosterSettings } from './settings.ts'

/** Requests under way when the instance stops may end so long; then they are cut off, and made again by the next start. */
const STOP_GRACE_MS = 20_000

/** Runs an `http-poster`: sends each message's payload to a URL. */
export default async function start(context: ActorContext<HttpPosterSettings>): Promise<RunningActor> {
  const { settings, name, log, clock } = context
  const facts = context.process as ProcessFacts
  const { pool, payloads, close } = await openStorage(facts, { log, name, poolSize: 2 })
  const client = new HttpClient(settings.max_concurrent_deliveries, {
    refusedNetworks: settings.refused_networks,
  })
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

class Poster {
  readonly #options: PosterOptions

  constructor(options: PosterOptions) {
    this.#options = options
  }

  async deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    try {
      const answer = await this.#send(delivery)
      crashPoint('http-poster.answered')
      const failure = failureOf(answer, this.#options.clock.now())
      if (failure === null) return DELIVERED
      throw failure
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
      onSent: () => crashPoint('http-poster.sent'),
    })
  }

  async #headersOf(delivery: ClaimedDelivery): Promise<Header[]> {
    const { pool, payloads, settings, product, clock } = this.#options
    const own = requestHeaders({
      configured: settings.http_headers,
      basicUsername: settings.http_basic_username,
      basicPassword: settings.http_basic_password,
      product,
      contentType: contentTypeOf(delivery, settings),
    })
    const webhook = await webhookHeaders({
      id: `${delivery.message_id}-${delivery.id}`,
      now: clock.now(),
      signingSecret: settings.signing_secret,
      // For the signature the body is read a second time, and never held.
      body: () => openDelivered(pool, payloads, delivery),
    })
    return [...own, ...webhook]
  }

  #outcomeOf(error: Error, attempts: number): Outcome {
    const { settings, signal } = this.#options
    if (signal.aborted) return { state: 'queued', error: (signal.reason as Error).message }
    return outcomeOfAnswered(error, attempts, settings, Math.random())
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
