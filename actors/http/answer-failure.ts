import { STATUS_CODES } from 'node:http'
import { PermanentFailure } from '../../storage/exchange/retry.ts'
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
