import type { Outcome } from '../sql/settle.ts'
import { isDamage, isStoreUnavailable } from '../storage-error.ts'

/** How a target repeats what failed: exponential, with jitter, so that many failures do not come back at once. */
export interface RetryPolicy {
  readonly retry_max_attempts: number
  readonly retry_initial_seconds: number
  readonly retry_max_seconds: number
}

/** A failure that no repeat can mend. */
export class PermanentFailure extends Error {
  override readonly name = 'PermanentFailure'
}

/** Longest text kept as a delivery's last error, in characters. */
const MAX_ERROR_LENGTH = 2000

/**
 * The outcome of an attempt that threw. `attempts` counts the failed one; `random` is in [0, 1). The wait doubles with
 * each attempt and is drawn from its upper half.
 */
export function outcomeOfFailure(
  error: Error,
  attempts: number,
  policy: RetryPolicy,
  random: number,
): Outcome {
  const message = error.message.slice(0, MAX_ERROR_LENGTH)
  // A payload store that is away is no failure of the target, and may be so for longer than all its repeats.
  const isLast = attempts >= policy.retry_max_attempts && !isStoreUnavailable(error)
  if (error instanceof PermanentFailure || isDamage(error) || isLast)
    return { state: 'failed', error: message }
  return { state: 'retrying', error: message, delaySeconds: delaySeconds(attempts, policy, random) }
}

/** The wait after so many failed attempts; see `outcomeOfFailure`. */
export function delaySeconds(
  attempts: number,
  policy: Omit<RetryPolicy, 'retry_max_attempts'>,
  random: number,
): number {
  const full = Math.min(policy.retry_max_seconds, policy.retry_initial_seconds * 2 ** (attempts - 1))
  return full * (0.5 + random / 2)
}
