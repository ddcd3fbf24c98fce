import {
  eventHash,
  headMac,
  isSameHash,
  NO_HASH,
  UnchainedDigest,
  witnessMac,
  type ChainHead,
  type Witness,
} from './chain.ts'
import type { StoredEvent } from './stored-event.ts'
import type { Anchors, Verification } from './verification.ts'

interface ChainWalkOptions extends Anchors {
  readonly key: string
}

const NO_HEAD: ChainHead = { firstId: 0, lastId: 0, hash: NO_HASH, mac: '' }
const NO_WITNESS: Witness = { headId: 0, hash: NO_HASH, mac: '' }

/**
 * A way along the whole log, from the first event to the last, which notes the first thing that is not as it was
 * written. What comes after that is only counted: it cannot be told any more what belongs to what.
 */
export class ChainWalk {
  readonly #key: string
  readonly #head: ChainHead
  readonly #witness: Witness
  /** What somebody has removed beside the log. */
  readonly #missing: string | null
  /** Whether the head was written by somebody with the key. */
  readonly #headHolds: boolean
  readonly #unchainedBefore = new UnchainedDigest()
  #firstUnchained: number | null = null
  /** The event that the next one has to follow; null before the chain begins. */
  #previous: Pick<StoredEvent, 'id' | 'hash'> | null = null
  #newest: Pick<StoredEvent, 'id' | 'hash'> | null = null
  #isWitnessSeen: boolean
  #chained = 0
  #unchained = 0
  #lastId = 0
  #broken: { readonly id: number; readonly reason: string } | null = null

  constructor({ key, head, witness }: ChainWalkOptions) {
    this.#key = key
    this.#head = head ?? NO_HEAD
    this.#witness = witness ?? NO_WITNESS
    this.#missing =
      head === null ? 'head beside the log' : witness === null ? 'head of the last verification' : null
    this.#headHolds = this.#head.lastId !== 0 && isSameHash(this.#head.mac, headMac(key, this.#head))
    this.#isWitnessSeen = this.#witness.headId === 0
  }

  /** The next events, in the order of their ids. */
  pass(events: readonly StoredEvent[]): void {
    for (const event of events) {
      if (event.hash === NO_HASH) this.#unchained += 1
      else {
        this.#chained += 1
        this.#newest = event
      }
      this.#lastId = event.id
      if (this.#broken === null) this.#check(event)
    }
  }

  /** There are no more events. */
  end(): Verification {
    if (this.#broken === null) this.#checkEnd()
    const counts = {
      events_checked: this.#chained + this.#unchained,
      chained: this.#chained,
      unchained: this.#unchained,
      head_id: this.#newest?.id ?? null,
      head_hash: this.#newest?.hash ?? NO_HASH,
    }
    if (this.#broken === null) return { ok: true, ...counts }
    return { ok: false, ...counts, first_broken_id: this.#broken.id, reason: this.#broken.reason }
  }

  #check(event: StoredEvent): void {
    if (event.hash === NO_HASH) this.#checkUnchained(event)
    else this.#checkChained(event)
    if (this.#broken === null) this.#checkWitness(event)
  }

  #checkUnchained(event: StoredEvent): void {
    const hasBegun = this.#previous !== null || (this.#headHolds && event.id >= this.#head.firstId)
    if (hasBegun) {
      return this.#breakAt(
        event.id,
        'It has no hash although the chain began before it: the hash was removed, or the event was inserted or written by a process without the AUDIT_KEY.',
      )
    }
    this.#firstUnchained ??= event.id
    this.#unchainedBefore.add(event)
  }

  #checkChained(event: StoredEvent): void {
    if (!isSameHash(event.hash, eventHash(this.#key, event))) {
      return this.#breakAt(
        event.id,
        'Its hash is not that of its content: the event was changed or inserted, or was written with another AUDIT_KEY.',
      )
    }
    if (this.#previous === null) this.#checkBeginning(event)
    else if (event.prev_hash !== this.#previous.hash) {
      this.#breakAt(
        event.id,
        `It does not follow event ${this.#previous.id}: events between them were removed, or one was moved.`,
      )
    }
    this.#previous = event
  }

  #checkBeginning(event: StoredEvent): void {
    if (event.prev_hash === this.#unchainedBefore.value()) return
    if (event.prev_hash === NO_HASH && this.#firstUnchained !== null) {
      return this.#breakAt(
        this.#firstUnchained,
        `It was inserted: the log began with event ${event.id}, and with a hash.`,
      )
    }
    this.#breakAt(
      event.id,
      'It does not follow what is before it: the events before it were changed or removed, or others were inserted there.',
    )
  }

  /** Once the walk has come past the event that the last verification ended with, that event must have been there. */
  #checkWitness(event: StoredEvent): void {
    if (this.#isWitnessSeen || event.id < this.#witness.headId) return
    this.#isWitnessSeen = true
    const { headId, hash } = this.#witness
    if (event.id !== headId || event.hash !== hash) this.#breakAt(headId, this.#missingWitness())
    else if (!isSameHash(this.#witness.mac, witnessMac(this.#key, this.#witness)))
      this.#breakAt(
        headId,
        'It was noted as the head of the last verification by somebody without the AUDIT_KEY.',
      )
  }

  #missingWitness(): string {
    return 'The last verification ended with it, and it is not there any more: the log was cut off at its end.'
  }

  #checkEnd(): void {
    const last = this.#newest
    const { lastId, hash } = this.#head
    if (this.#missing !== null) {
      // Whatever was behind the last event may be gone with it.
      return this.#breakAt(
        this.#lastId + 1,
        `The ${this.#missing} was removed, and with it what tells the log's end.`,
      )
    }
    if (!this.#isWitnessSeen) return this.#breakAt(this.#witness.headId, this.#missingWitness())
    if (lastId === (last?.id ?? 0) && hash === (last?.hash ?? NO_HASH)) {
      if (last === null || this.#headHolds) return undefined
      return this.#breakAt(last.id, 'The head beside the log was written by somebody without the AUDIT_KEY.')
    }
    if (lastId > this.#lastId) {
      return this.#breakAt(lastId, 'It is the newest event of the chain, and it is not there any more.')
    }
    return this.#breakAt(last?.id ?? lastId, 'The head beside the log is another: it was changed.')
  }

  #breakAt(id: number, reason: string): void {
    this.#broken ??= { id, reason }
  }
}
