import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { storedEvents, type Run, type StoredEvent } from './stored-event.ts'

/**
 * The chain of the audit log. Each event's hash is an HMAC-SHA-256 over all that is stored of it, which holds the hash
 * of the event before: who lacks the key can neither change, remove, insert nor move one unnoticed.
 *
 * What is hashed is the UTF-8 text of a JSON list of strings, numbers and null, whose first entry says what it is of:
 * no two different events have the same text, and nothing else that the key signs can be taken for an event.
 */

/** What the first event of a log carries as `prev_hash`, and every event without a key as both hashes. */
export const NO_HASH = ''

/** The version of the stored form and of what the hash covers. */
export const EVENT_VERSION = 1

/** The newest event of the chain, as the database keeps it beside the log. */
export interface ChainHead {
  /** The event that the chain begins with; 0 before it has begun. */
  readonly firstId: number
  readonly lastId: number
  readonly hash: string
  readonly mac: string
}

/** The head that the last verification found, kept to tell a log that was cut off at its end. */
export interface Witness {
  /** 0 for none. */
  readonly headId: number
  readonly hash: string
  readonly mac: string
}

export function eventHash(key: string, event: Omit<StoredEvent, 'hash'>): string {
  return hmac(key, textOf('waybill audit event', event))
}

export function headMac(key: string, { firstId, lastId, hash }: Omit<ChainHead, 'mac'>): string {
  return hmac(key, JSON.stringify(['waybill audit head', firstId, lastId, hash]))
}

export function witnessMac(key: string, { headId, hash }: Omit<Witness, 'mac'>): string {
  return hmac(key, JSON.stringify(['waybill audit witness', headId, hash]))
}

/** Compared in constant time: a hash that can be guessed digit by digit would be no proof. */
export function isSameHash(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)]
  return left.length === right.length && timingSafeEqual(left, right)
}

/**
 * A digest of the events that were stored before there was a key. The first event of the chain carries it as its
 * `prev_hash`, so that from then on they cannot be changed unnoticed either.
 */
export class UnchainedDigest {
  readonly #digest = createHash('sha256')
  #count = 0

  add(event: StoredEvent): void {
    this.#digest.update(`${textOf('waybill unchained audit event', event)}\n`)
    this.#count += 1
  }

  /** Of all that were added; to be asked once. */
  value(): string {
    return this.#count === 0 ? NO_HASH : this.#digest.digest('hex')
  }
}

/** What the first event of a chain has as its `prev_hash`. Nobody may add events meanwhile. */
export async function beginningOfChain(run: Run): Promise<string> {
  const digest = new UnchainedDigest()
  for await (const events of storedEvents(run)) {
    for (const event of events) if (event.hash === NO_HASH) digest.add(event)
  }
  return digest.value()
}

function textOf(what: string, event: Omit<StoredEvent, 'hash'>): string {
  const { v, id, at, actor, action, kind, record_id, record_name, changes, prev_hash } = event
  return JSON.stringify([what, v, id, at, actor, action, kind, record_id, record_name, changes, prev_hash])
}

function hmac(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex')
}
