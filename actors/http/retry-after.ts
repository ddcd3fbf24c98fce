const WHOLE_SECONDS = /^\d{1,9}$/
/** The one form of a date that servers may send (RFC 9110 §5.6.7); the obsolete ones are not worth a parser. */
const DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** Seconds that the header Retry-After (RFC 9110 §10.2.3) asks to wait; null for none that can be read. */
export function secondsToWait(header: string | undefined, now: Date): number | null {
  const text = header?.trim() ?? ''
  if (WHOLE_SECONDS.test(text)) return Number(text)
  const time = DATE.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? null : Math.max(0, (time - now.getTime()) / 1000)
}
