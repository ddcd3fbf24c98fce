import type { ChainHead, Witness } from './chain.ts'

/** What a verification has found (specification, 4.3). */
export interface Verification {
  readonly ok: boolean
  /** All events of the log. */
  readonly events_checked: number
  /** Events with a hash, and events without one. */
  readonly chained: number
  readonly unchained: number
  /** The newest event with a hash; null and empty for none. */
  readonly head_id: number | null
  readonly head_hash: string
  /** Of a log that does not verify, the first event, by id, that is not as it was written or that is missing. */
  readonly first_broken_id?: number
  readonly reason?: string
}

/** What stands beside the log; null for what somebody has removed, past the triggers. */
export interface Anchors {
  readonly head: ChainHead | null
  readonly witness: Witness | null
}
