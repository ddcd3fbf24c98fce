import { z, type ZodType } from 'zod'

/** Lists: one set of rules for all (specification, 4.2). */

export interface Page<T> {
  readonly items: readonly T[]
  /** Records that match the filters, on all pages. */
  readonly total: number
}

/** What a list is asked for. */
export interface PageRequest {
  /** 1 to 500. */
  readonly limit: number
  readonly offset: number
}

const DEFAULT_LIMIT = 20
const LARGEST_LIMIT = 500
const WHOLE_NUMBER = /^\d+$/

/** A whole number of a query parameter, of any length; one that a number cannot hold exactly is the largest that it can. */
export function wholeNumber(options: { least: number; preset: number; description: string }) {
  const { least, preset, description } = options
  return z
    .string({ error: `must be a whole number of at least ${least}` })
    .refine((text) => WHOLE_NUMBER.test(text) && Number(text) >= least, {
      error: `must be a whole number of at least ${least}`,
    })
    .transform((text) => Math.min(Number(text), Number.MAX_SAFE_INTEGER))
    .prefault(String(preset))
    .meta({ type: 'integer', minimum: least, default: preset, description })
}

/** The parameters `limit` and `offset`, to be spread into a list's query schema. */
export function pagingParameters(defaultLimit = DEFAULT_LIMIT) {
  return {
    limit: wholeNumber({
      least: 1,
      preset: defaultLimit,
      description: `Records on the page. A value above ${LARGEST_LIMIT} is treated as ${LARGEST_LIMIT}.`,
    })
      .transform((limit) => Math.min(limit, LARGEST_LIMIT))
      .meta({
        type: 'integer',
        minimum: 1,
        default: defaultLimit,
        description: `Records on the page. A value above ${LARGEST_LIMIT} is treated as ${LARGEST_LIMIT}.`,
      }),
    offset: wholeNumber({ least: 0, preset: 0, description: 'Records before the page.' }),
  }
}

/** A filter of free text; empty is no filter. */
export function searchText(description: string) {
  return z
    .string()
    .max(200)
    .optional()
    .transform((text) => (text === undefined || text.trim() === '' ? undefined : text.trim()))
    .meta({ description })
}

/** A list's answer: the page under its plural key, `total`, `limit` and `offset`. */
export function listOf<K extends string, S extends ZodType>(key: K, item: S) {
  // A computed key widens to string; the cast says which one it is.
  const page = { [key]: z.array(item).describe('The page.') } as Record<K, z.ZodArray<S>>
  return z.object({
    ...page,
    total: z.int().min(0).describe('Records that match the filters, on all pages.'),
    limit: z.int().min(1).max(LARGEST_LIMIT).describe('The largest number of records on the page.'),
    offset: z.int().min(0).describe('Records before the page.'),
  })
}

/** The largest id a record can have (PostgreSQL's integer). */
const LARGEST_ID = 2_147_483_647

/**
 * A path's record id. One above the largest is a whole number that no record has: it is looked up as the largest,
 * so that the answer is 404, not a database error.
 */
export const recordId = z
  .string()
  .refine((text) => /^\d+$/.test(text), { error: 'must be a whole number' })
  .transform((text) => Math.min(Number(text), LARGEST_ID))
  .meta({ type: 'integer', minimum: 0 })

/** A reference to another record in a body. */
export const reference = z.int().min(1).max(LARGEST_ID)

/** RFC 3339, as every answer writes a time. */
export const timestamp = z.iso.datetime()
