import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { Pool } from 'pg'
import { crashPoint } from '../../../runtime/crash-point.ts'
import type { ActorContext, RunningActor } from '../../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts } from '../../../storage/access.ts'
import { Consumer, type AttemptResult } from '../../../storage/exchange/consumer.ts'
import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import { claimedBytes, openDelivered } from '../../../storage/payloads/delivered-payload.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'
import type { ClaimedDelivery } from '../../../storage/sql/claim.ts'
import { outcomeOfAnswered } from '../../http/answer-failure.ts'
import { checkConnection, type ConnectionCheckRequest } from '../connection-check/check.ts'
import { as2Facts, type As2Facts } from '../facts.ts'
import { HttpClient, type Answer } from './http-client.ts'
import { outgoingOf } from './outgoing.ts'
import { Keyring, profileHeaders, type Partnership } from '../profiles/partnership.ts'
import { PartnershipLookup } from '../profiles/partnership-lookup.ts'
import { ComposeError } from '../protocol/compose-error.ts'
import type { OutgoingFacts } from '../protocol/outgoing.ts'
import { isPositive, parseDisposition } from '../protocol/disposition.ts'
import type { Mic } from '../protocol/mic.ts'
import { receiptDeliveryOption } from '../receipts/delivery-option.ts'
import { announceReceipt } from '../receipts/expectation.ts'
import { attemptWithoutReceipt, ForgedReceipt } from '../receipts/forged-receipt.ts'
import { judgeAnswer } from '../receipts/judgement.ts'
import { makeSendable, type Sendable } from './sendable.ts'
import { sentAttachments } from './sent-attachments.ts'
import { sentContent } from './sent-content.ts'
import { factsOf } from './sent-facts.ts'
import type { As2SenderSettings } from '../settings.ts'
import { warnOfWeakKeys } from '../profiles/weak-keys.ts'

/** Runs an `as2-sender`: sends each message to its partner and settles it by the partner's receipt. */
export default async function start(context: ActorContext<As2SenderSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const facts = context.process as ProcessFacts
  const { pool, payloads, secrets, close } = await openStorage(facts, { log, name, poolSize: 2 })
  const client = new HttpClient(settings.max_concurrent_deliveries)
  const cutOff = new AbortController()
  await warnOfWeakKeys({ pool, log })
  const sender = new Sender({
    pool,
    payloads,
    keyring: new Keyring(secrets),
    client,
    product: facts.product,
    publicUrl: facts.publicUrl,
    settings,
    signal: cutOff.signal,
  })
  const consumer = Consumer.start({
    context,
    pool,
    concurrency: settings.max_concurrent_deliveries,
    retry: settings,
    deliver: (delivery) => sender.deliver(delivery),
  })
  const { product, publicUrl } = facts
  const checker = { pool, secrets, settings, product, publicUrl, clock: context.clock }
  return {
    // The one thing that a sender is asked.
    handle: (request, signal) => checkConnection(checker, request as ConnectionCheckRequest, signal),
    stop: async () => {
      const grace = setTimeout(() => cutOff.abort(new Error(STOPPED)), STOP_GRACE_MS)
      await consumer.stop()
      clearTimeout(grace)
      client.close()
      await close()
    },
  }
}

/** Posts under way when the instance stops may end so long; then they are cut off, and made again by the next start. */
const STOP_GRACE_MS = 18_000
const STOPPED = 'The instance was stopped before the answer came'

interface SenderOptions {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly keyring: Keyring
  readonly client: HttpClient
  readonly product: string
  /** By which the service is known outside. */
  readonly publicUrl: string
  readonly settings: As2SenderSettings
  /** Cuts posts off. */
  readonly signal: AbortSignal
}

class Sender {
  readonly #options: SenderOptions
  readonly #partnerships: PartnershipLookup

  constructor(options: SenderOptions) {
    this.#options = options
    this.#partnerships = new PartnershipLookup(options.pool, options.keyring)
  }

  async deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    try {
      return await this.#attempt(delivery)
    } catch (thrown) {
      if (!this.#options.signal.aborted) throw failureOf(thrown)
      return { outcome: { state: 'queued', error: STOPPED }, protocols: null, stage: null, line: null }
    }
  }

  async #attempt(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const partnership = await this.#partnershipOf(delivery)
    const { pool, payloads, product } = this.#options
    const asyncUrl = await this.#receiptUrl(partnership)
    const outgoing = outgoingOf(delivery, partnership, { product, asyncUrl })
    const attachments = await sentAttachments(delivery, () => openDelivered(pool, payloads, delivery))
    const message = await this.#compose(delivery, outgoing, partnership)
    crashPoint('as2-sender.composed')
    // What a stream is made of is known at its end.
    const mics = (): Mic[] => micsOf(message)
    const facts = (): As2Facts =>
      factsOf({ delivery, partnership, outgoing, attachments, mic: mics()[0] ?? null })
    // Committed before the message is sent: the receipt may come before the answer, or after the end of this process.
    const isAsync = partnership.row.receipt_mode === 'Async'
    const answered = isAsync ? await announceReceipt(pool, delivery, { facts: facts(), mics: mics() }) : null
    if (answered !== null) return answered
    try {
      const answer = await this.#post(partnership, message)
      crashPoint('as2-sender.answered')
      const { furtherMics } = message
      const sent = { facts: facts(), mics: mics(), furtherMics }
      const result = await judgeAnswer({ answer, partnership, ...sent, now: new Date() })
      crashPoint('as2-sender.judged')
      if (message.isWhole() || isRefusal(result)) return result
      throw new Error('The partner answered before it had the whole message')
    } catch (thrown) {
      const { settings, signal } = this.#options
      const forged = thrown instanceof ForgedReceipt ? thrown : null
      const failure = forged?.failure ?? failureOf(thrown)
      const outcome = signal.aborted
        ? ({ state: 'queued', error: STOPPED } as const)
        : outcomeOfAnswered(failure, delivery.attempts, settings, Math.random())
      return attemptWithoutReceipt({ outcome, forged, attempts: delivery.attempts, isAsync, facts: facts() })
    }
  }

  /** Where the partner is asked to send its receipt; null where it is to answer with it. */
  async #receiptUrl({ row }: Partnership): Promise<string | null> {
    if (row.receipt_mode !== 'Async') return null
    const { pool, publicUrl } = this.#options
    const url = await receiptDeliveryOption(pool, publicUrl)
    if (url !== null) return url
    throw new PermanentFailure(
      `The AS2 profile of partner ${row.partner} asks for asynchronous receipts, and no enabled AS2 receiver could take them in`,
    )
  }

  async #partnershipOf({ from_party, to_party }: ClaimedDelivery): Promise<Partnership> {
    const partnership = await this.#partnerships.byName(from_party, to_party)
    if (partnership !== null) return partnership
    throw new PermanentFailure(
      `Organization ${from_party} and partner ${to_party} do not both have an AS2 profile`,
    )
  }

  #compose(delivery: ClaimedDelivery, outgoing: OutgoingFacts, { row }: Partnership): Promise<Sendable> {
    const { pool, payloads, signal } = this.#options
    const open = (): Promise<Readable> => openDelivered(pool, payloads, delivery)
    const content = {
      sizeBytes: delivery.payloads['unpacked']?.size_bytes ?? 0,
      read: async () => claimedBytes(delivery) ?? (await buffer(await open())),
      open,
    }
    const wishes = { chunked: row.chunked_transfer, micFirst: row.receipt_mode === 'Async', signal }
    return makeSendable(outgoing, sentContent(content, outgoing, row), wishes)
  }

  #post({ row, secrets, tls }: Partnership, message: Sendable): Promise<Answer> {
    const { client, settings, signal } = this.#options
    const headers = [...message.headers, ...profileHeaders(row, secrets)]
    return client.post({
      url: row.endpoint,
      tls,
      headers,
      body: message.body,
      connectTimeoutMs: settings.connect_timeout_seconds * 1000,
      responseTimeoutMs: settings.response_timeout_seconds * 1000,
      signal,
    })
  }
}

/** The MIC that the receipt must show first, then what some products send instead. */
function micsOf(message: Sendable): Mic[] {
  const mics = message.mics()
  if (mics === null) return []
  return [mics.mic, mics.alternativeMic, ...mics.furtherMics].filter((each) => each !== null)
}

/** What cannot be made as the profile wants it, no repeat can make. */
function failureOf(thrown: unknown): Error {
  if (thrown instanceof ComposeError) return new PermanentFailure(thrown.message, { cause: thrown })
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** A negative receipt is the partner's word, however much of the message it has seen. */
function isRefusal({ outcome, protocols }: AttemptResult): boolean {
  const { receipt } = as2Facts(protocols ?? {}) ?? {}
  const disposition = parseDisposition(receipt?.disposition ?? '')
  return outcome.state === 'failed' && disposition !== null && !isPositive(disposition)
}
