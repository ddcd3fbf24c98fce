import type { Caller } from '../../../runtime/endpoint/endpoint.ts'

/** A token that was accepted, as the records stood at a revision. */
export interface Verified {
  readonly revision: number
  readonly caller: Caller
  /** From then on it must be looked at anew. */
  readonly expiresAt: Date
  /** What is noted as used; null for a user. */
  readonly use: { readonly accountId: number; readonly tokenId?: number } | null
}

const MOST_ENTRIES = 10_000

/**
 * The tokens that were accepted, by their SHA-256. All of them hold for one revision of the identity records alone:
 * any change of a provider, account, token or user forgets them all.
 */
export class VerifiedTokens {
  #revision = -1
  readonly #entries = new Map<string, Verified>()

  /** `revision` was read after the request came; what was verified at it, or later still, holds for the request. */
  get(key: string, revision: number, now: Date): Verified | undefined {
    if (revision > this.#revision) this.#moveTo(revision)
    const verified = this.#entries.get(key)
    if (verified === undefined) return undefined
    if (verified.expiresAt.getTime() > now.getTime()) return verified
    this.#entries.delete(key)
    return undefined
  }

  put(key: string, verified: Verified): void {
    if (verified.revision > this.#revision) this.#moveTo(verified.revision)
    if (verified.revision < this.#revision) return
    const [oldest] = this.#entries.keys()
    if (this.#entries.size >= MOST_ENTRIES && oldest !== undefined) this.#entries.delete(oldest)
    this.#entries.set(key, verified)
  }

  #moveTo(revision: number): void {
    this.#revision = revision
    this.#entries.clear()
  }
}
