import { z } from 'zod'

/** RFC 3339 §5.6, in any case and with any number of digits after the second. */
const DATE_TIME =
  /^(\d{4})-(\d\d)-(\d\d)t(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i

const EARLIEST = '0001-01-01T00:00:00.000000Z'
const LATEST = '9999-12-31T23:59:59.999999Z'

/**
 * A point in time as RFC 3339 writes it, in UTC with six digits after the second: as exactly as the database knows
 * times. What is finer is the next microsecond, so that nothing from before it is at or after the answer. A leap second
 * is the second that follows it. Null for what is no such text.
 */
export function instantOf(text: string): string | null {
  const match = DATE_TIME.exec(text)
  if (match === null) return null
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map(Number)
  if (hour > 23 || minute > 59 || second > 60) return null
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null
  const [fraction = '', sign, offsetHours = '0', offsetMinutes = '0'] = match.slice(7)
  const offset = (sign === '-' ? -1 : 1) * (Number(offsetHours) * 60 + Number(offsetMinutes))
  date.setUTCHours(hour, minute - offset, Math.min(second, 59))
  const leap = second === 60
  // RFC 3339 §5.7: leap seconds come at the end of a day of UTC.
  if (leap && (date.getUTCHours() !== 23 || date.getUTCMinutes() !== 59)) return null
  const finer = /[1-9]/.test(fraction.slice(6)) ? 1 : 0
  const micros = leap ? 1_000_000 : Number(fraction.slice(0, 6).padEnd(6, '0')) + finer
  if (micros === 1_000_000) date.setUTCSeconds(date.getUTCSeconds() + 1)
  if (date.getUTCFullYear() < 1) return EARLIEST
  if (date.getUTCFullYear() > 9999) return LATEST
  const digits = String(micros % 1_000_000).padStart(6, '0')
  return `${date.toISOString().slice(0, 19)}.${digits}Z`
}

const REFUSAL = 'must be a time of RFC 3339, such as 2026-03-02T09:30:00Z'

/** A time in a parameter, as `instantOf` gives it. */
export function instant(description: string) {
  return z
    .string({ error: REFUSAL })
    .max(100, { error: REFUSAL })
    .meta({ examples: ['2026-03-02T09:30:00Z'] })
    .transform((text, context) => {
      const found = instantOf(text)
      if (found !== null) return found
      context.addIssue({ code: 'custom', message: REFUSAL })
      return z.NEVER
    })
    .meta({ format: 'date-time', description })
}
