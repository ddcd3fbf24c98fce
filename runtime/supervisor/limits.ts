/** Every number of the supervisor. Tests shorten them. */
export interface SupervisorLimits {
  /** A start that is not ready by then has failed. */
  readonly startLimitMs: number
  /** Work in hand may take so long to finish when an instance stops; then its thread is ended. */
  readonly stopLimitMs: number
  /** A thread that was ended and is still there after so long is given up. */
  readonly endLimitMs: number
  /** So many restarts after a breakdown within `restartWindowMs`, and so many in a row without success. */
  readonly maxRestarts: number
  readonly restartWindowMs: number
  /** The wait before a restart: doubled with each one within the window, up to the largest. */
  readonly firstBackoffMs: number
  readonly largestBackoffMs: number
  /** A thread says so often that its event loop turns … */
  readonly heartbeatMs: number
  /** … and counts as hung when it was silent so long. */
  readonly silenceLimitMs: number
  /** Heap of a thread's old generation. Buffers are outside of it. */
  readonly heapLimitMb: number
  /** Deliveries that a source may have announced to one target and that are not settled. */
  readonly creditWindow: number
  /** Requests to one thread that wait for their reply. */
  readonly maxPendingRequests: number
}

export const DEFAULT_LIMITS: SupervisorLimits = {
  startLimitMs: 30_000,
  stopLimitMs: 30_000,
  endLimitMs: 10_000,
  maxRestarts: 5,
  restartWindowMs: 60_000,
  firstBackoffMs: 500,
  largestBackoffMs: 10_000,
  heartbeatMs: 1_000,
  silenceLimitMs: 15_000,
  heapLimitMb: 512,
  creditWindow: 1_000,
  maxPendingRequests: 1_000,
}
