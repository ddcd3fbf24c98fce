const WHOLE_SECONDS = /^\d+$/
/** More than any wait that is granted, and still a number that a date can be made of. */
const LONGEST_SECONDS = 1e9
/** The one form of a date that servers may send (RFC 9110 §5.6.7); the obsolete ones are not worth a parser. */
const DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/**
 * Seconds that the header Retry-After (RFC 9110 §10.2.3) asks to wait; null for none that can be read. A date is the
 * server's own: where the answer says by its header Date when it was made, the two clocks need not agree.
 */
export function secondsToWait(
  header: string | undefined,
  answeredAt: string | undefined,
  now: Date,
): number | null {
  const text = header?.trim() ?? ''
  if (WHOLE_SECONDS.test(text)) return Math.min(Number(text), LONGEST_SECONDS)
  const timeMs = timeOf(text)
  if (timeMs === null) return null
  return Math.max(0, (timeMs - (timeOf(answeredAt?.trim() ?? '') ?? now.getTime())) / 1000)
}

function timeOf(text: string): number | null {
  const timeMs = DATE.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(timeMs) ? null : timeMs
}
