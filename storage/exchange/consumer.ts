import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import type { ActorContext } from '../../runtime/thread/actor.ts'
import { claim, reclaim, renewLeases, type ClaimedDelivery } from '../sql/claim.ts'
import { settle, type Settlement } from '../sql/settle.ts'
import { Batch } from './batch.ts'
import { outcomeOfFailure, type RetryPolicy } from './retry.ts'

/** A claim is ours for so long; it is renewed three times within. */
const LEASE_SECONDS = 60
const RENEWAL_MS = 20_000
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
  /** Identifies this data directory among the nodes. */
  readonly nodeId: string
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
  readonly #owner: string
  readonly #settlements: Batch<Settlement, boolean>
  readonly #inHand = new Map<number, Promise<void>>()
  readonly #renewal: NodeJS.Timeout
  #wakes = 1
  #claiming: Promise<void> | null = null
  #stopping = false

  private constructor(options: ConsumerOptions, ownerPrefix: string) {
    this.#options = options
    this.#owner = ownerPrefix + randomUUID()
    this.#settlements = new Batch<Settlement, boolean>(
      async (items) => {
        const held = await settle(options.pool, items)
        return items.map(({ deliveryId }) => held.has(deliveryId))
      },
      { maxItems: 100, maxUnderWay: 1 },
    )
    this.#renewal = setInterval(() => void this.#renew(), RENEWAL_MS)
    options.context.onAnnouncement(() => this.#wake())
  }

  /** Puts back what a predecessor under the same name left claimed, and begins to work. */
  static async start(options: ConsumerOptions): Promise<Consumer> {
    const ownerPrefix = `${options.nodeId}/${options.context.name}/`
    await reclaim(options.pool, ownerPrefix)
    const consumer = new Consumer(options, ownerPrefix)
    consumer.#wake()
    return consumer
  }

  /** Claims nothing more and resolves when what is in hand is settled, and what a claim under way still brings. */
  async stop(): Promise<void> {
    this.#stopping = true
    while (this.#claiming !== null || this.#inHand.size > 0)
      await Promise.all([this.#claiming, ...this.#inHand.values()])
    clearInterval(this.#renewal)
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
      const claimed = await this.#claim(free)
      for (const delivery of claimed) this.#begin(delivery)
      if (claimed.length < free) seen = wakes
      if (claimed.length === 0 && this.#inHand.size === 0) this.#options.context.drained()
    }
    this.#claiming = null
  }

  async #claim(limit: number): Promise<readonly ClaimedDelivery[]> {
    const { context, pool } = this.#options
    try {
      const request = { target: context.name, limit, owner: this.#owner, leaseSeconds: LEASE_SECONDS }
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
    this.#inHand.set(delivery.id, work)
  }

  async #work(delivery: ClaimedDelivery): Promise<void> {
    const { context, finished } = this.#options
    const result = await this.#attempt(delivery)
    const settlement = {
      deliveryId: delivery.id,
      messageId: delivery.message_id,
      fencing: delivery.fencing,
      ...result,
    }
    const held = await this.#settle(settlement)
    const facts = { message: delivery.message_id, delivery: delivery.id, state: result.outcome.state }
    if (!held) return context.log.warn(facts, 'the claim was lost before it was settled')
    if (result.outcome.state === 'delivered') context.log.debug(facts, 'delivered')
    else context.log.warn({ ...facts, ...result.outcome }, 'not delivered')
    if (result.outcome.state !== 'delivered' && result.outcome.state !== 'failed') return
    await finished?.(delivery).catch((error: unknown) =>
      context.log.warn({ err: error, ...facts }, 'cannot clean up'),
    )
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
    for (;;) {
      try {
        return await this.#settlements.add(settlement)
      } catch (error) {
        const { context } = this.#options
        context.log.error({ err: error, delivery: settlement.deliveryId }, 'cannot settle the delivery')
        await context.clock.sleep(DATABASE_PAUSE_MS)
      }
    }
  }

  async #renew(): Promise<void> {
    if (this.#inHand.size === 0) return
    const { context, pool } = this.#options
    await renewLeases(pool, { target: context.name, owner: this.#owner, leaseSeconds: LEASE_SECONDS }).catch(
      (error: unknown) => context.log.error({ err: error }, 'cannot renew the leases'),
    )
  }
}
