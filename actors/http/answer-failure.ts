import { STATUS_CODES } from 'node:http'
import { outcomeOfFailure, PermanentFailure, type RetryPolicy } from '../../storage/exchange/retry.ts'
import type { Outcome } from '../../storage/sql/settle.ts'
import type { HttpAnswer } from './client.ts'
import { secondsToWait } from './retry-after.ts'

/** The server asks to come again, and says when. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
  readonly waitSeconds: number

  constructor(message: string, waitSeconds: number) {
    super(message)
    this.waitSeconds = waitSeconds
  }
}

/** Why an answer to a post is no success; null for a 2xx. A PermanentFailure is one that no repeat can mend. */
export function failureOf({ status, headers }: HttpAnswer, now: Date): Error | null {
  if (status >= 200 && status < 300) return null
  const answered = `The server answered ${[status, STATUS_CODES[status]].join(' ').trim()}`
  if (status >= 300 && status < 400)
    return new PermanentFailure(`${answered}, and redirects are not followed`)
  if (status >= 400 && status < 500 && ![408, 425, 429].includes(status))
    return new PermanentFailure(answered)
  const waitSeconds = secondsToWait(headers['retry-after'], headers.date, now)
  return waitSeconds === null ? new Error(answered) : new Unavailable(answered, waitSeconds)
}

/** `outcomeOfFailure` of an attempt that a server has answered, which is not asked again before it wants to be. */
export function outcomeOfAnswered(
  error: Error,
  attempts: number,
  policy: RetryPolicy,
  random: number,
): Outcome {
  const outcome = outcomeOfFailure(error, attempts, policy, random)
  if (outcome.state !== 'retrying') return outcome
  return { ...outcome, delaySeconds: Math.max(outcome.delaySeconds, askedSeconds(error, policy)) }
}

/** How long a server asks to be left alone, and no longer than an operator expects; 0 where it does not. */
export function askedSeconds(
  error: unknown,
  { retry_max_seconds }: Pick<RetryPolicy, 'retry_max_seconds'>,
): number {
  return error instanceof Unavailable ? Math.min(error.waitSeconds, retry_max_seconds) : 0
}
