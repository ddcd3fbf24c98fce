import { STATUS_CODES } from 'node:http'
import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import { Unavailable } from '../../http/answer-failure.ts'
import { secondsToWait } from '../../http/retry-after.ts'
import type { Answer } from './http-client.ts'

/** Answers of the kind that no repeat mends, but for these: too slow, too early, too many. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429])
const MAX_HOST_CHARACTERS = 253
/** In its place stands the partner's own, where an answer names none (RFC 2606 §2). */
const NO_HOST = 'none.invalid'

/**
 * Throws unless the partner has taken the transfer: a PermanentFailure where it is of no use to try again, and Unavailable
 * where the partner says when.
 */
export function checkStatus(
  { status, headers }: Pick<Answer, 'status' | 'headers'>,
  now: Date = new Date(),
): void {
  if (status >= 200 && status < 300) return
  const answered = `The partner answered HTTP status ${[status, STATUS_CODES[status]].join(' ').trim()}`
  if (status >= 300 && status < 400) throw new PermanentFailure(`${answered}${whereTo(headers)}`)
  if (status >= 400 && status < 500 && !PASSING.has(status)) throw new PermanentFailure(answered)
  const waitSeconds = askedWait(headers, now)
  throw waitSeconds === null ? new Error(answered) : new Unavailable(answered, waitSeconds)
}

/** Seconds that an answer asks to wait; null where it does not. */
export function askedWait(headers: Answer['headers'], now: Date): number | null {
  return secondsToWait(fieldOf(headers, 'retry-after'), fieldOf(headers, 'date'), now)
}

/** Of several the first. */
function fieldOf(headers: Answer['headers'], field: string): string | undefined {
  return headers.find(([name]) => name.toLowerCase() === field)?.[1]
}

/** A message is not sent to where an answer likes; the operator decides whether the profile shall name that place. */
function whereTo(headers: Answer['headers']): string {
  const location = fieldOf(headers, 'location')
  const place = location === undefined ? null : placeOf(location)
  return place === null ? '; redirects are not followed' : ` to ${place}; redirects are not followed`
}

/** Not the whole URL, which may hold what is secret. */
function placeOf(location: string): string | null {
  const url = URL.parse(location, `http://${NO_HOST}`)
  if (url === null || url.host === '') return null
  return url.host === NO_HOST ? 'another path of its own' : url.host.slice(0, MAX_HOST_CHARACTERS)
}
