import { Readable } from 'node:stream'
import type { Clock } from '../../runtime/clock.ts'
import type { ClaimedPost, PostOutcome } from '../../storage/alerts/outbox.ts'
import { outcomeOfFailure } from '../../storage/exchange/retry.ts'
import { failureOf, Unavailable } from '../http/answer-failure.ts'
import type { HttpAnswer, HttpClient } from '../http/client.ts'
import { requestHeaders, webhookHeaders } from '../http/request-headers.ts'
import { bodyOf } from './formats/format.ts'
import { refusalOfSlack } from './formats/slack-answers.ts'
import { refusalOfTeams } from './formats/teams-answers.ts'
import type { NotificationWebhookSettings } from './settings.ts'

const CONNECT_TIMEOUT_MS = 30_000
/** Of chat services. While one is waited for, no other alert is posted. */
const RESPONSE_TIMEOUT_MS = 60_000
/** A server that asks for more will be asked again before. */
const LONGEST_ASKED_SECONDS = 86_400

export interface PostingOptions {
  readonly client: HttpClient
  /** Of the instance. */
  readonly name: string
  /** The User-Agent. */
  readonly product: string
  readonly publicUrl: string
  readonly settings: NotificationWebhookSettings
  readonly clock: Clock
  /** Cuts off what is under way. */
  readonly signal: AbortSignal
}

/** Posts alerts to the webhook, and tells what came of it. */
export class Posting {
  readonly #options: PostingOptions

  constructor(options: PostingOptions) {
    this.#options = options
  }

  async post(claimed: ClaimedPost): Promise<PostOutcome> {
    try {
      const { settings, clock } = this.#options
      const answer = await this.#send(claimed)
      const failure = failureOf(judged(answer, settings), clock.now())
      if (failure === null) return { outcome: 'delivered' }
      const refusal = settings.format === 'slack' ? refusalOfSlack(answer.beginning) : null
      if (refusal !== null) failure.message += `: ${refusal}`
      throw failure
    } catch (thrown) {
      return this.#outcomeOf(thrown instanceof Error ? thrown : new Error(String(thrown)), claimed)
    }
  }

  async #send(claimed: ClaimedPost): Promise<HttpAnswer> {
    const { client, name, product, publicUrl, settings, clock, signal } = this.#options
    const body = bodyOf(settings.format, { ...claimed, notifier: name, publicUrl })
    const own = requestHeaders({
      configured: settings.headers,
      basicUsername: settings.basic_username,
      basicPassword: settings.basic_password,
      product,
      contentType: 'application/json',
    })
    const webhook = await webhookHeaders({
      id: claimed.webhookId,
      now: clock.now(),
      signingSecret: settings.signing_secret,
      body: async () => inOnePiece(body),
    })
    const sending = client.send({
      method: 'POST',
      url: settings.url,
      headers: [...own, ...webhook],
      bodyBytes: body.length,
      body: inOnePiece(body),
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      responseTimeoutMs: RESPONSE_TIMEOUT_MS,
      signal,
    })
    return sending.catch((thrown: unknown) => {
      if (thrown instanceof Error) thrown.message = withoutAddress(thrown.message, settings.url)
      throw thrown
    })
  }

  #outcomeOf(thrown: Error, { attempts, test }: ClaimedPost): PostOutcome {
    const { settings, signal } = this.#options
    const outcome = outcomeOfFailure(thrown, attempts, settings, Math.random())
    const error = 'error' in outcome ? outcome.error : thrown.message
    // Whoever tries a notifier out waits for the answer, and is told of the first.
    if (test) return { outcome: 'failed', error }
    // Cut off by the stop: what was posted may have come, and the repeat has the same id.
    if (signal.aborted) return { outcome: 'retry', error, delaySeconds: 0, restSeconds: 0 }
    // Not before the server wants it, and no sooner than without its word: neither repeats nor alerts must be used up in
    // a moment.
    const asked = thrown instanceof Unavailable ? Math.min(thrown.waitSeconds, LONGEST_ASKED_SECONDS) : 0
    const restSeconds = Math.max(settings.retry_initial_seconds, asked)
    if (outcome.state !== 'retrying') return { outcome: 'failed', error, restSeconds }
    return { outcome: 'retry', error, delaySeconds: Math.max(outcome.delaySeconds, restSeconds), restSeconds }
  }
}

/** What an answer comes to: its status, unless its text has another. */
function judged(answer: HttpAnswer, { format }: NotificationWebhookSettings): HttpAnswer {
  const refusal = format === 'teams' && answer.status < 300 ? refusalOfTeams(answer.beginning) : null
  return refusal === null ? answer : { ...answer, status: refusal }
}

function inOnePiece(body: Buffer): Readable {
  return Readable.from([body], { objectMode: false })
}

/** The address of a webhook is its credential: what went wrong is told without any part of it. */
export function withoutAddress(message: string, address: string): string {
  const { href, pathname, search, hostname } = new URL(address)
  const parts = [address, href, pathname + search, pathname, hostname.replace(/^\[(.*)\]$/, '$1')]
  return parts
    .filter((part) => part.length > 1)
    .reduce((text, part) => text.replaceAll(part, '(address of the webhook)'), message)
}
