import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { reasonOf } from '../../../runtime/errors.ts'
import { Rounds } from '../../../runtime/rounds.ts'
import type { ActorContext } from '../../../runtime/thread/actor.ts'
import type { ProcessFacts } from '../../../storage/access.ts'
import { askedSeconds } from '../../http/answer-failure.ts'
import { delaySeconds } from '../../../storage/exchange/retry.ts'
import {
  adoptReceipts,
  claimReceipts,
  releaseReceipts,
  settleReceipt,
  type ClaimedReceipt,
  type ReceiptSettlement,
} from '../../../storage/receipts/receipt-dispatches.ts'

/** Receipts that are being sent at the same time. */
const CONCURRENCY = 8
/** What is accepted here wakes at once. This is for what waits for its next attempt, and for what another node left. */
const POLL_MS = 3_000
/** What receivers owe that were deleted is looked for as often. */
const ADOPTION_MS = 30_000
/** Longer than one attempt can take (see receipt-sending.ts): who is silent for longer has died. */
const LEASE_SECONDS = 180
const DATABASE_PAUSE_MS = 1_000
/** Posts under way when the instance stops may end so long; then they are cut off, and made again by the next start. */
const STOP_GRACE_MS = 12_000
/** Until the receipt expires. */
const WAITS = { retry_initial_seconds: 15, retry_max_seconds: 3_600 }
const MAX_ERROR_CHARACTERS = 500

export interface ReceiptDispatcherOptions {
  readonly context: ActorContext
  readonly pool: Pool
  /** Posts the receipt; throws why the partner did not take it. */
  readonly send: (receipt: ClaimedReceipt, signal: AbortSignal) => Promise<void>
}

/**
 * Sends the receipts that partners want by themselves, until they are taken or expire. What it works on are the orders in
 * the database: they were committed with their messages, so nothing is lost with this process, and the same receiver on
 * another node goes on with them.
 */
export class ReceiptDispatcher {
  readonly #options: ReceiptDispatcherOptions
  /** With this the names of all owners of this instance begin, those of former runs too. */
  readonly #ownerPrefix: string
  readonly #owner: string
  readonly #rounds: Rounds
  readonly #inHand = new Set<Promise<void>>()
  readonly #cutOff = new AbortController()
  #hasTakenBack = false
  #adoptedAtMs = -Infinity
  #stopping = false

  private constructor(options: ReceiptDispatcherOptions) {
    const { context } = options
    const { nodeId, runId } = context.process as ProcessFacts
    this.#options = options
    this.#ownerPrefix = `${nodeId}/${context.name}/`
    this.#owner = `${this.#ownerPrefix}${runId}/${randomUUID()}`
    this.#rounds = Rounds.start({
      name: 'receipts to send',
      clock: context.clock,
      log: context.log,
      pauseAfterFailureMs: DATABASE_PAUSE_MS,
      round: () => this.#round(),
    })
  }

  static start(options: ReceiptDispatcherOptions): ReceiptDispatcher {
    return new ReceiptDispatcher(options)
  }

  /** A receipt waits to be sent. */
  wake(): void {
    this.#rounds.wake()
  }

  /** Claims nothing more; what is in hand may end, for a while, and is left to the next start after that. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#rounds.stop()
    const reason = new Error('The instance was stopped before the receipt was taken')
    const grace = setTimeout(() => this.#cutOff.abort(reason), STOP_GRACE_MS)
    await Promise.all(this.#inHand)
    clearTimeout(grace)
    const { pool, context } = this.#options
    await releaseReceipts(pool, this.#owner).catch((error: unknown) =>
      context.log.warn({ reason: reasonOf(error) }, 'cannot give back what is in hand, its time will end'),
    )
  }

  async #round(): Promise<number> {
    const { pool, context } = this.#options
    if (!this.#hasTakenBack) {
      const released = await releaseReceipts(pool, this.#ownerPrefix)
      this.#hasTakenBack = true
      if (released > 0) context.log.warn({ receipts: released }, 'took back what a predecessor left')
    }
    if (performance.now() - this.#adoptedAtMs > ADOPTION_MS) {
      const adopted = await adoptReceipts(pool, context.name)
      this.#adoptedAtMs = performance.now()
      if (adopted > 0) context.log.warn({ receipts: adopted }, 'took over what no other receiver sends')
    }
    const limit = CONCURRENCY - this.#inHand.size
    if (limit <= 0 || this.#stopping) return POLL_MS
    const claim = { receiver: context.name, limit, owner: this.#owner, leaseSeconds: LEASE_SECONDS }
    const claimed = await claimReceipts(pool, claim)
    if (claimed.length > 0) crashPoint('receipt-dispatch.claimed')
    for (const receipt of claimed) this.#begin(receipt)
    return POLL_MS
  }

  #begin(receipt: ClaimedReceipt): void {
    const work = this.#work(receipt).finally(() => {
      this.#inHand.delete(work)
      this.#rounds.wake()
    })
    this.#inHand.add(work)
  }

  async #work(receipt: ClaimedReceipt): Promise<void> {
    const { context, send } = this.#options
    const { id, fencing, attempts, message_id: message } = receipt
    let failure: ReceiptSettlement['failure'] = null
    try {
      await send(receipt, this.#cutOff.signal)
      crashPoint('receipt-dispatch.sent')
    } catch (thrown) {
      // It is given back as it is.
      if (this.#cutOff.signal.aborted) return
      const error = reasonOf(thrown).slice(0, MAX_ERROR_CHARACTERS)
      const waitSeconds = Math.max(delaySeconds(attempts, WAITS, Math.random()), askedSeconds(thrown, WAITS))
      failure = { error, waitSeconds }
    }
    const { host } = new URL(receipt.url)
    const line =
      failure === null
        ? `The partner has taken the receipt, at ${host}`
        : `The partner did not take the receipt, at ${host}: ${failure.error}. It is sent again until it expires`
    const held = await this.#settle({ id, fencing, failure, line })
    crashPoint('receipt-dispatch.settled')
    if (!held) context.log.warn({ message }, 'the claim of a receipt was lost before it was settled')
    else if (failure === null) context.log.debug({ message }, 'receipt sent')
    else context.log.warn({ message, host, reason: failure.error }, 'receipt not taken')
  }

  /** The outcome is known and only the database is missing; one that was not noted leads to a repeat, no more. */
  async #settle(settlement: ReceiptSettlement): Promise<boolean> {
    const { pool, context } = this.#options
    for (;;) {
      try {
        return await settleReceipt(pool, settlement)
      } catch (error) {
        context.log.error({ reason: reasonOf(error) }, 'cannot settle a receipt')
        if (this.#stopping) return false
        await context.clock.sleep(DATABASE_PAUSE_MS)
      }
    }
  }
}
