import { buffer } from 'node:stream/consumers'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Consumer, type AttemptResult } from '../../storage/exchange/consumer.ts'
import { outcomeOfFailure, PermanentFailure } from '../../storage/exchange/retry.ts'
import { claimedBytes, openDelivered } from '../../storage/payloads/delivered-payload.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import type { ClaimedDelivery } from '../../storage/sql/claim.ts'
import { partnershipByName } from '../../storage/sql/partnership.ts'
import { checkConnection, type ConnectionCheckRequest } from './connection-check.ts'
import { as2Facts, type As2Facts, type SentMic } from './facts.ts'
import { HttpClient, type Answer } from './http-client.ts'
import { Keyring, profileHeaders, type Partnership } from './partnership.ts'
import { ComposeError } from './protocol/compose-error.ts'
import { composeMessage, type ComposedMessage } from './protocol/compose.ts'
import type { Mic } from './protocol/mic.ts'
import { judgeAnswer } from './receipt-judgement.ts'
import type { As2SenderSettings } from './settings.ts'

/** Runs an `as2-sender`: sends each message to its partner and settles it by the partner's receipt. */
export default async function start(context: ActorContext<As2SenderSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const facts = context.process as ProcessFacts
  const { pool, payloads, secrets, close } = await openStorage(facts, { log, name, poolSize: 2 })
  const client = new HttpClient(settings.max_concurrent_deliveries)
  const cutOff = new AbortController()
  const sender = new Sender({
    pool,
    payloads,
    keyring: new Keyring(secrets),
    client,
    product: facts.product,
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
  const checker = { pool, secrets, settings, product: facts.product, clock: context.clock }
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

/** More profile changes between the attempts of one message than anybody makes. */
const MAX_EARLIER_MICS = 10

interface SenderOptions {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly keyring: Keyring
  readonly client: HttpClient
  readonly product: string
  readonly settings: As2SenderSettings
  /** Cuts posts off. */
  readonly signal: AbortSignal
}

class Sender {
  readonly #options: SenderOptions

  constructor(options: SenderOptions) {
    this.#options = options
  }

  async deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const partnership = await this.#partnershipOf(delivery)
    const content = await this.#read(delivery)
    const composed = await compose(delivery, partnership, content, this.#options.product)
    crashPoint('as2-sender.composed')
    const mics = [composed.mic, composed.alternativeMic].filter((mic) => mic !== null)
    const facts = factsOf(partnership, composed, micsSentBefore(delivery, composed.mic))
    try {
      const answer = await this.#post(partnership, composed)
      crashPoint('as2-sender.answered')
      const result = await judgeAnswer({ answer, partnership, facts, mics, now: new Date() })
      crashPoint('as2-sender.judged')
      return result
    } catch (thrown) {
      // What was sent is kept with the failed attempt: the partner may have it, and answer the repeat with the receipt
      // of this one.
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      const { settings, signal } = this.#options
      const outcome = signal.aborted
        ? ({ state: 'queued', error: STOPPED } as const)
        : outcomeOfFailure(error, delivery.attempts, settings, Math.random())
      return { outcome, protocols: { as2: facts }, stage: null, line: null }
    }
  }

  async #partnershipOf({ from_party, to_party }: ClaimedDelivery): Promise<Partnership> {
    const row = await partnershipByName(this.#options.pool, from_party, to_party)
    if (row === null) {
      throw new PermanentFailure(
        `Organization ${from_party} and partner ${to_party} do not both have an AS2 profile`,
      )
    }
    return this.#options.keyring.open(row)
  }

  async #read(delivery: ClaimedDelivery): Promise<Buffer> {
    const { pool, payloads } = this.#options
    return claimedBytes(delivery) ?? (await buffer(await openDelivered(pool, payloads, delivery)))
  }

  #post({ row, secrets, tls }: Partnership, composed: ComposedMessage): Promise<Answer> {
    const { client, settings, signal } = this.#options
    const headers = [...composed.headers, ...profileHeaders(row, secrets)]
    return client.post({
      url: row.endpoint,
      tls,
      headers,
      body: composed.body,
      connectTimeoutMs: settings.connect_timeout_seconds * 1000,
      responseTimeoutMs: settings.response_timeout_seconds * 1000,
      signal,
    })
  }
}

/** Made from the message alone, so that every repeat carries the same (RFC 4130 §5.3.3). */
function messageIdOf(delivery: ClaimedDelivery): string {
  return `<${delivery.message_id}@waybill>`
}

async function compose(
  delivery: ClaimedDelivery,
  { row, signing, partnerEncryption }: Partnership,
  content: Buffer,
  product: string,
): Promise<ComposedMessage> {
  if (row.signing_algorithm !== 'None' && signing === null) {
    throw new PermanentFailure(
      `The AS2 profile of organization ${row.organization} has no signing certificate`,
    )
  }
  if (row.encryption_algorithm !== 'None' && partnerEncryption === null) {
    throw new PermanentFailure(`The AS2 profile of partner ${row.partner} has no certificate to encrypt to`)
  }
  if (row.receipt_mode === 'Async') {
    throw new PermanentFailure(
      `The AS2 profile of partner ${row.partner} asks for asynchronous receipts, which this version cannot take in`,
    )
  }
  try {
    return await composeMessage({
      as2From: row.local_as2id,
      as2To: row.remote_as2id,
      messageId: messageIdOf(delivery),
      subject: row.subject === '' ? delivery.file_name : row.subject,
      date: delivery.message_created_at,
      fileName: delivery.file_name,
      contentType:
        delivery.content_type === 'application/octet-stream' ? row.content_type : delivery.content_type,
      content,
      compression: row.compression,
      signature:
        row.signing_algorithm === 'None' || signing === null
          ? null
          : { algorithm: row.signing_algorithm, scheme: row.signature_scheme, ...signing },
      encryption:
        row.encryption_algorithm === 'None' || partnerEncryption === null
          ? null
          : {
              algorithm: row.encryption_algorithm,
              keyTransport: row.key_transport,
              certificate: partnerEncryption,
            },
      receipt: row.receipt_mode === 'None' ? null : { signed: row.receipt_signed, asyncUrl: null },
      product,
    })
  } catch (error) {
    if (error instanceof ComposeError) throw new PermanentFailure(error.message, { cause: error })
    throw error
  }
}

/** The MICs of earlier attempts that differ from this one's: a profile may have changed between them. */
function micsSentBefore({ protocols }: ClaimedDelivery, mic: Mic): SentMic[] {
  const before = as2Facts(protocols)
  if (before?.mic == null || before.mic_algorithm === null) return []
  const all = [...(before.earlier_mics ?? []), { mic: before.mic, mic_algorithm: before.mic_algorithm }]
  return all.filter((each) => each.mic !== mic.value).slice(-MAX_EARLIER_MICS)
}

function factsOf({ row }: Partnership, composed: ComposedMessage, earlier: readonly SentMic[]): As2Facts {
  return {
    message_id: composed.messageId,
    as2_from: row.local_as2id,
    as2_to: row.remote_as2id,
    subject: composed.subject,
    signed: row.signing_algorithm !== 'None',
    encrypted: row.encryption_algorithm !== 'None',
    compressed: row.compression !== 'None',
    algorithms: {
      signature: named(row.signing_algorithm),
      encryption: named(row.encryption_algorithm),
      compression: named(row.compression),
    },
    mic: composed.mic.value,
    mic_algorithm: composed.mic.algorithm,
    ...(earlier.length === 0 ? {} : { earlier_mics: earlier }),
    receipt:
      row.receipt_mode === 'None'
        ? null
        : {
            mode: row.receipt_mode,
            signed: row.receipt_signed,
            state: 'pending',
            disposition: null,
            mic: null,
            mic_matches: null,
            message_id: null,
            at: null,
          },
  }
}

/** A profile's `None` is null in the facts. */
function named(name: string): string | null {
  return name === 'None' ? null : name
}
