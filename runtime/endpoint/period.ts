import { z } from 'zod'
import { instantOf } from './instant.ts'

/** The filters `from` and `to` of a list (specification, 4.2): a time of RFC 3339, or a date of UTC. */

const REFUSAL = 'must be a time of RFC 3339, such as 2026-03-02T09:30:00Z, or a date, such as 2026-03-02'
const DATE = /^\d{4}-\d\d-\d\d$/
const DAY_MS = 86_400_000

/** The beginning of a period, which belongs to it: a date is the beginning of its day. */
export function periodStart(description: string) {
  return boundary(description, (date) => instantOf(`${date}T00:00:00Z`))
}

/** The end of a period, which does not belong to it: a date is the end of its day. */
export function periodEnd(description: string) {
  return boundary(description, (date) => {
    const start = instantOf(`${date}T00:00:00Z`)
    if (start === null) return null
    const end = new Date(Date.parse(start) + DAY_MS).toISOString()
    // The day after the last one has five digits in its year.
    return instantOf(end) ?? instantOf(`${date}T23:59:59.999999Z`)
  })
}

function boundary(description: string, ofDate: (date: string) => string | null) {
  return z
    .string({ error: REFUSAL })
    .max(100, { error: REFUSAL })
    .meta({ examples: ['2026-03-02', '2026-03-02T09:30:00Z'] })
    .transform((text, context) => {
      const found = DATE.test(text) ? ofDate(text) : instantOf(text)
      if (found !== null) return found
      context.addIssue({ code: 'custom', message: REFUSAL })
      return z.NEVER
    })
    .meta({ description })
}
