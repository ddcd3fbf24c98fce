import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { ActorContext } from '../../runtime/thread/actor.ts'
import type { ProcessFacts } from '../access.ts'
import { claim, renewLeases, takeBack, type ClaimedDelivery } from '../sql/claim.ts'
import { settle, type Settlement } from '../sql/settle.ts'
import { Batch } from './batch.ts'
import { outcomeOfFailure, type RetryPolicy } from './retry.ts'

/** So often within its time a lease is renewed. */
const RENEWALS = 3
/** Work in hand may go on so long when the instance stops: less than the supervisor allows it. */
const STOP_GRACE_MS = 20_000
/** How long after a failure of the database the next try waits. */
const DATABASE_PAUSE_MS = 1_000

/** How an attempt ended, as the target's own code says it. A thrown error is a failure under the retry policy. */
export type AttemptResult = Pick<Settlement, 'outcome' | 'protocols' | 'stage' | 'line'>

export const DELIVERED: AttemptResult = {
  outcome: { state: 'delivered' },
  protocols: null,
  stage: null,
  line: null,
}

export interface ConsumerOptions {
  readonly context: ActorContext
  readonly pool: Pool
  /** At most so many deliveries are worked on at the same time. */
  readonly concurrency: number
  readonly retry: RetryPolicy
  readonly deliver: (delivery: ClaimedDelivery) => Promise<AttemptResult>
  /** Called after the delivery is delivered or failed, and that is committed. */
  readonly finished?: (delivery: ClaimedDelivery) => Promise<void>
}

/**
 * The working half of a target: claims what waits, lets `deliver` carry it out and settles the outcome. An announcement
 * only wakes it; what it works on comes from the database, so a lost announcement loses nothing.
 */
export class Consumer {
  readonly #options: ConsumerOptions
  /** With these the names of all owners of this instance begin, those of former runs too. */
  readonly #ownerPrefix: string
  readonly #runId: string
  readonly #owner: string
  readonly #settlements: Batch<Settlement, boolean>
  readonly #inHand = new Map<number, { readonly delivery: ClaimedDelivery; readonly work: Promise<void> }>()
  readonly #leaseSeconds: number
  readonly #renewal: NodeJS.Timeout
  #wakes = 1
  #claiming: Promise<void> | null = null
  #hasTakenBack = false
  #stopping = false
  /** What was in hand at the end of a stop is the next one's. */
  #released = false

  private constructor(options: ConsumerOptions) {
    const { nodeId, runId, leaseSeconds } = options.context.process as ProcessFacts
    this.#options = options
    this.#ownerPrefix = `${nodeId}/${options.context.name}/`
    this.#runId = runId
    this.#owner = `${this.#ownerPrefix}${runId}/${randomUUID()}`
    this.#leaseSeconds = leaseSeconds
    this.#settlements = new Batch<Settlement, boolean>(
      async (items) => {
        const held = await settle(options.pool, items)
        return items.map(({ deliveryId }) => held.has(deliveryId))
      },
      { maxItems: 100, maxUnderWay: 1 },
    )
    this.#renewal = setInterval(() => void this.#renew(), (leaseSeconds * 1000) / RENEWALS)
    options.context.onAnnouncement(() => this.#wake())
  }

  /**
   * Begins to work, as soon as the database answers: one that is away when an instance starts must not end it. First puts
   * back what a predecessor under the same name left claimed.
   */
  static start(options: ConsumerOptions): Consumer {
    const consumer = new Consumer(options)
    consumer.#wake()
    return consumer
  }

  /**
   * Claims nothing more, and resolves when what is in hand is settled, and what a claim under way still brings. What takes
   * too long is put back to queued: another node may take it at once.
   */
  async stop(): Promise<void> {
    this.#stopping = true
    const finished = new AbortController()
    const grace = this.#options.context.clock.sleep(STOP_GRACE_MS, finished.signal).catch(() => undefined)
    await Promise.race([this.#finish(), grace])
    finished.abort()
    clearInterval(this.#renewal)
    await this.#release()
  }

  async #finish(): Promise<void> {
    while (this.#claiming !== null || this.#inHand.size > 0)
      await Promise.all([this.#claiming, ...[...this.#inHand.values()].map(({ work }) => work)])
  }

  async #release(): Promise<void> {
    this.#released = true
    const { context, pool } = this.#options
    const settlements = [...this.#inHand.values()].map(({ delivery }) =>
      settlementOf(delivery, {
        ...DELIVERED,
        outcome: { state: 'queued', error: 'The instance was stopped before its work was done' },
      }),
    )
    if (settlements.length === 0) return
    await settle(pool, settlements).catch((error: unknown) =>
      context.log.warn({ reason: reasonOf(error) }, 'cannot put back what is in hand, its leases will end'),
    )
  }

  #wake(): void {
    this.#wakes += 1
    if (!this.#stopping) this.#claiming ??= this.#claimAll()
  }

  async #claimAll(): Promise<void> {
    // Not at once: deliveries that were settled together free their places together, and one claim fills them all.
    await new Promise((resolve) => setImmediate(resolve))
    let seen = 0
    // Once more whenever an announcement came while the last claim was under way.
    while (!this.#stopping && seen !== this.#wakes) {
      const free = this.#options.concurrency - this.#inHand.size
      if (free <= 0) break
      const wakes = this.#wakes
      if (!(await this.#takeBack())) break
      const claimed = await this.#claim(free)
      if (claimed.length > 0) crashPoint('delivery.claimed')
      for (const delivery of claimed) this.#begin(delivery)
      if (claimed.length < free) seen = wakes
      if (claimed.length === 0 && this.#inHand.size === 0) this.#options.context.drained()
    }
    this.#claiming = null
  }

  /** Before the first claim. False: the database is away, and it will be tried again. */
  async #takeBack(): Promise<boolean> {
    if (this.#hasTakenBack) return true
    const { context, pool } = this.#options
    try {
      const cutOff = await takeBack(pool, this.#ownerPrefix, this.#runId)
      this.#hasTakenBack = true
      if (cutOff > 0) crashPoint('delivery.taken-back')
      if (cutOff > 0) context.log.warn({ deliveries: cutOff }, 'took back what a predecessor left')
      return true
    } catch (error) {
      context.log.error({ err: error }, 'cannot take back what a predecessor left')
      setTimeout(() => this.#wake(), DATABASE_PAUSE_MS)
      return false
    }
  }

  async #claim(limit: number): Promise<readonly ClaimedDelivery[]> {
    const { context, pool } = this.#options
    try {
      const request = { target: context.name, limit, owner: this.#owner, leaseSeconds: this.#leaseSeconds }
      return await claim(pool, request)
    } catch (error) {
      context.log.error({ err: error }, 'cannot claim deliveries')
      setTimeout(() => this.#wake(), DATABASE_PAUSE_MS)
      return []
    }
  }

  #begin(delivery: ClaimedDelivery): void {
    const work = this.#work(delivery).finally(() => {
      this.#inHand.delete(delivery.id)
      this.#options.context.settled(1)
      this.#wake()
    })
    this.#inHand.set(delivery.id, { delivery, work })
  }

  async #work(delivery: ClaimedDelivery): Promise<void> {
    const { context, finished } = this.#options
    const result = await this.#attempt(delivery)
    crashPoint('delivery.attempted')
    const held = await this.#settle(settlementOf(delivery, result))
    crashPoint('delivery.settled')
    const facts = { message: delivery.message_id, delivery: delivery.id, state: result.outcome.state }
    if (!held) return context.log.warn(facts, 'the claim was lost before it was settled')
    if (result.outcome.state === 'delivered') context.log.debug(facts, 'delivered')
    else if (result.outcome.state === 'awaiting_ack') context.log.debug(facts, 'sent, its receipt is to come')
    else context.log.warn({ ...facts, ...result.outcome }, 'not delivered')
    if (result.outcome.state !== 'delivered' && result.outcome.state !== 'failed') return
    await finished?.(delivery).catch((error: unknown) =>
      context.log.warn({ err: error, ...facts }, 'cannot clean up'),
    )
    crashPoint('delivery.finished')
  }

  async #attempt(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const { deliver, retry } = this.#options
    try {
      return await deliver(delivery)
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      const outcome = outcomeOfFailure(error, delivery.attempts, retry, Math.random())
      return { outcome, protocols: null, stage: null, line: null }
    }
  }

  /** The outcome is known and only the database is missing: keeps trying; the fencing number guards a late success. */
  async #settle(settlement: Settlement): Promise<boolean> {
    while (!this.#released) {
      try {
        return await this.#settlements.add(settlement)
      } catch (error) {
        const { context } = this.#options
        context.log.error({ err: error, delivery: settlement.deliveryId }, 'cannot settle the delivery')
        await context.clock.sleep(DATABASE_PAUSE_MS)
      }
    }
    return false
  }

  async #renew(): Promise<void> {
    if (this.#inHand.size === 0) return
    const { context, pool } = this.#options
    await renewLeases(pool, {
      target: context.name,
      owner: this.#owner,
      leaseSeconds: this.#leaseSeconds,
    }).catch((error: unknown) => context.log.error({ err: error }, 'cannot renew the leases'))
  }
}

function settlementOf(delivery: ClaimedDelivery, result: AttemptResult): Settlement {
  const { id, message_id, fencing } = delivery
  return { deliveryId: id, messageId: message_id, fencing, ...result }
}
