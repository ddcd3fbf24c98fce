import type { IncomingMessage } from 'node:http'
import type { Pool } from 'pg'
import type { ActorContext } from '../../../runtime/thread/actor.ts'
import type { ProcessFacts, Storage } from '../../../storage/access.ts'
import type { Reply } from '../receiving/reply.ts'
import type { RequestBody } from '../receiving/request-body.ts'
import { decoded, ExpandsTooFar } from '../sending/content-coding.ts'
import type { Keyring } from '../profiles/partnership.ts'
import { isReceipt, mayBeReceiptType } from '../protocol/receipt.ts'
import { begunReceipt } from '../protocol/receipt-beginning.ts'
import { IN_MEMORY_BYTES } from '../protocol/stream/limits.ts'
import { ReceiptDispatcher } from './dispatcher.ts'
import { ReceiptIntake } from './intake.ts'
import { allowedPlaces, type AllowedPlaces } from './place.ts'
import { ReceiptSender } from './dispatch.ts'
import type { As2ReceiverSettings } from '../settings.ts'

type Headers = ReadonlyArray<readonly [string, string]>

/** Some products send the message back in its receipt. As much counts where the receipt comes with the answer. */
const MAX_RECEIPT_BYTES = IN_MEMORY_BYTES
/** Among so many of the first bytes that of a larger one is looked for which tells what it is. */
const LOOKED_AT_BYTES = 64 * 1024

export interface ReceiverReceiptsOptions {
  readonly context: ActorContext<As2ReceiverSettings>
  readonly storage: Storage
  readonly keyring: Keyring
}

/** The asynchronous receipts of a receiver: those that come in here, and those that it owes. */
export class ReceiverReceipts {
  readonly allowed: AllowedPlaces
  readonly #context: ActorContext<As2ReceiverSettings>
  readonly #intake: ReceiptIntake
  readonly #pool: Pool
  readonly #sender: ReceiptSender
  #dispatcher: ReceiptDispatcher | null = null

  constructor({ context, storage, keyring }: ReceiverReceiptsOptions) {
    const { product } = context.process as ProcessFacts
    this.#context = context
    this.#pool = storage.pool
    this.allowed = allowedPlaces(context.settings.receipt_hosts)
    this.#intake = new ReceiptIntake({ pool: storage.pool, keyring, log: context.log })
    this.#sender = new ReceiptSender({ storage, keyring, product, allowed: this.allowed })
  }

  /** Begins to send. */
  start(): void {
    const sender = this.#sender
    this.#dispatcher = ReceiptDispatcher.start({
      context: this.#context,
      pool: this.#pool,
      send: (receipt, signal) => sender.send(receipt, signal),
    })
  }

  /** One that we owe waits to be sent. */
  wake(): void {
    this.#dispatcher?.wake()
  }

  /** The answer to a request that is a receipt; null to one that is not. */
  async answer(sentHeaders: Headers, sentBody: Buffer): Promise<Reply | null> {
    if (!mayBeReceiptType(typeOf(sentHeaders))) return null
    try {
      const { headers, body } = await decoded(sentHeaders, sentBody, MAX_RECEIPT_BYTES)
      if (!isReceipt(headers, body)) return null
      const { status, text, targets } = await this.#intake.handle(headers, body)
      for (const target of targets) void this.#context.announce(target, 1)
      return answered(status, text)
    } catch (error) {
      if (error instanceof ExpandsTooFar) return answered(413, `${error.message}.`)
      throw error
    }
  }

  /** The answer to what is too large to be held, where it is a receipt: it is no message either. Null where it is none. */
  async refuseLarge(headers: Headers, body: RequestBody): Promise<Reply | null> {
    if (!mayBeReceiptType(typeOf(headers))) return null
    const begun = begunReceipt(headers, await firstOf(body))
    if (begun === null) return null
    await this.#intake.refuseLarge(headers, begun, MAX_RECEIPT_BYTES)
    return answered(413, `The receipt is larger than ${MAX_RECEIPT_BYTES} bytes.`)
  }

  async stop(): Promise<void> {
    await this.#dispatcher?.stop()
    this.#sender.close()
  }
}

/**
 * Whether a request may be a receipt, by its headers alone. Those are let in also while nothing new is taken in: they are
 * small, and what they end makes room.
 */
export function mayBeReceipt({ headers }: IncomingMessage): boolean {
  const bytes = Number(headers['content-length'] ?? Infinity)
  return bytes <= MAX_RECEIPT_BYTES && mayBeReceiptType(headers['content-type'] ?? '')
}

function typeOf(headers: Headers): string {
  return headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? ''
}

function answered(status: number, text: string): Reply {
  return {
    status,
    headers: text === '' ? [] : [['Content-Type', 'text/plain']],
    body: Buffer.from(text === '' ? '' : `${text}\n`),
    accepted: null,
  }
}

/** The first bytes of a body, which stay in it. */
async function firstOf(body: RequestBody): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  while (bytes < LOOKED_AT_BYTES) {
    const chunk = await body.next()
    if (chunk === null) break
    chunks.push(chunk)
    bytes += chunk.length
  }
  body.unread(chunks)
  return Buffer.concat(chunks).subarray(0, LOOKED_AT_BYTES)
}
