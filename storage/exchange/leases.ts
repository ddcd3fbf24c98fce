import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { Pool, PoolClient } from 'pg'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { transaction } from '../postgres/pool.ts'
import { acquireLease, lockLease, releaseLease, renewLease, type HeldLease } from '../sql/lease.ts'

/** A node that dies is followed by another one after so long at most, and the time that one needs to look. */
const LEASE_SECONDS = 8
const RENEWAL_MS = 2_000
/** How often one that waits looks. */
const LOOK_MS = 1_000
/** The lease counts as lost here so long before it ends in the database. */
const MARGIN_MS = 1_000

/** The lease is not ours any more, or may not be: the work that needs it must not go on. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
}

export interface LeaseOptions {
  readonly pool: Pool
  readonly log: Log
  /** What only one may do at a time. */
  readonly name: string
  /** Identifies this data directory among the nodes. */
  readonly nodeId: string
  readonly seconds?: number
}

/**
 * The right to do what only one node may do at a time. It lasts for seconds and is renewed; the database's clock says
 * when it ends. Here its end is known by a clock that no change of the date moves, counted from before the renewal was
 * sent, so that a thread which stood still for a while knows by itself, before it does anything, that it may have lost
 * its right. What is committed under the lease is guarded by the database itself; see `commit`.
 */
export class Lease {
  readonly #options: LeaseOptions
  readonly #owner: string
  readonly #leaseMs: number
  #held: HeldLease | null = null
  #untilMs = -Infinity
  #renewing: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(options: LeaseOptions) {
    this.#options = options
    this.#owner = `${options.nodeId}/${options.name}/${randomUUID()}`
    this.#leaseMs = (options.seconds ?? LEASE_SECONDS) * 1000
  }

  /** Milliseconds after which one that did not get it should look again. */
  get lookMs(): number {
    return Math.min(LOOK_MS, this.#leaseMs / 4)
  }

  /** Whether it is ours for certain. Asks nobody. */
  get isHeld(): boolean {
    return this.#held !== null && performance.now() < this.#untilMs - Math.min(MARGIN_MS, this.#leaseMs / 4)
  }

  /** Tries to get it, or to be sure of it. From then on it is renewed until it is released or lost. */
  async acquire(): Promise<boolean> {
    if (this.isHeld) return true
    if (this.#held !== null) await this.#renew()
    if (this.isHeld) return true
    const { pool, name, nodeId, log } = this.#options
    const sentMs = performance.now()
    const fencing = await acquireLease(pool, {
      name,
      owner: this.#owner,
      ownerPrefix: `${nodeId}/${name}/`,
      seconds: this.#leaseMs / 1000,
    })
    if (fencing === null) return false
    this.#held = { name, owner: this.#owner, fencing }
    this.#untilMs = sentMs + this.#leaseMs
    this.#timer ??= setInterval(
      () => void this.#renew().catch(() => undefined),
      Math.min(RENEWAL_MS, this.#leaseMs / 4),
    ).unref()
    log.info({ lease: name, fencing }, 'holds the lease')
    return this.isHeld
  }

  /** Throws a LeaseLost unless it is ours for certain. */
  assertHeld(): void {
    if (!this.isHeld) throw new LeaseLost(`The lease ${this.#options.name} is lost`)
  }

  /** Throws a LeaseLost unless the database says that it is ours now. */
  async confirm(): Promise<void> {
    await this.#renew()
    this.assertHeld()
  }

  /** Runs a transaction that is committed only under the lease. Throws a LeaseLost when that is not ours any more. */
  commit<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    this.assertHeld()
    const held = this.#held
    return transaction(this.#options.pool, async (client) => {
      if (held === null || !(await lockLease(client, held))) {
        this.#lose()
        throw new LeaseLost(`The lease ${this.#options.name} is lost`)
      }
      return work(client)
    })
  }

  /** Gives it back, so that nobody waits for its end. */
  async release(): Promise<void> {
    const held = this.#held
    this.#lose()
    await this.#renewing?.catch(() => undefined)
    if (held === null) return
    const { pool, log } = this.#options
    await releaseLease(pool, held).catch((error: unknown) =>
      log.warn({ lease: held.name, reason: reasonOf(error) }, 'cannot give the lease back, it will run out'),
    )
  }

  /** One renewal at a time. A failure leaves the lease as it is: it ends by itself. */
  #renew(): Promise<void> {
    this.#renewing ??= this.#renewOnce().finally(() => {
      this.#renewing = null
    })
    return this.#renewing
  }

  async #renewOnce(): Promise<void> {
    const held = this.#held
    if (held === null) return
    const sentMs = performance.now()
    const renewed = await renewLease(this.#options.pool, held, this.#leaseMs / 1000)
    if (held !== this.#held) return
    if (renewed) {
      this.#untilMs = sentMs + this.#leaseMs
    } else {
      this.#options.log.warn({ lease: held.name }, 'another node has taken the lease')
      this.#lose()
    }
  }

  #lose(): void {
    this.#held = null
    this.#untilMs = -Infinity
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }
}
