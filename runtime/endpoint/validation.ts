import type { z, ZodObject, ZodType } from 'zod'
import { validationFailure, WaybillError } from '../errors.ts'

/** How a value from outside is held against a zod schema, and in which words a refusal is told. */

/** What a failure that blames no single property stands under. */
const FORM = '_form'

/**
 * The value as the schema makes it. Throws a validation failure with one text per rejected property; a failure
 * inside a property is keyed by the top property, an unknown property by its own name.
 */
export function checked<S extends ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value, { error: wordsFor })
  if (parsed.success) return parsed.data
  throw validationFailure(refusals(parsed.error.issues))
}

/** As `checked`, for a value of which something was refused already: all that is wrong is told at once. */
export function checkedBeside<S extends ZodType>(
  refused: Readonly<Record<string, string>>,
  schema: S,
  value: unknown,
): z.output<S> {
  const parsed = schema.safeParse(value, { error: wordsFor })
  const details = { ...(parsed.success ? {} : refusals(parsed.error.issues)), ...refused }
  if (parsed.success && Object.keys(details).length === 0) return parsed.data
  throw validationFailure(details)
}

/**
 * The parameters of a query as the schema makes them. One that is empty or given more than once is told so, unless
 * its schema takes that.
 */
export function checkedQuery<S extends ZodObject>(
  schema: S,
  query: Readonly<Record<string, unknown>>,
): z.output<S> {
  const parsed = schema.safeParse(query, { error: wordsFor })
  if (parsed.success) return parsed.data
  const details = refusals(parsed.error.issues)
  for (const name of Object.keys(details)) {
    const value = query[name]
    if (!Object.hasOwn(schema.shape, name)) details[name] = 'unknown parameter'
    else if (value === '') details[name] = 'must not be empty'
    else if (Array.isArray(value)) details[name] = `must be given once, not ${value.length} times`
  }
  throw validationFailure(details)
}

/** The headers that the schema names, whose names have no case; the others are nobody's matter. */
export function checkedHeaders<S extends ZodObject>(
  schema: S,
  headers: Readonly<Record<string, unknown>>,
): z.output<S> {
  const named = Object.keys(schema.shape).map((name) => [name, headers[name.toLowerCase()]] as const)
  return checked(schema, Object.fromEntries(named.filter(([, value]) => value !== undefined)))
}

/** What a body refers to and is not there, by property. A value that no reference can have is not looked at. */
export type RefusalsOfReferences = () => Promise<Readonly<Record<string, string>>>

/**
 * What `check` answers. When it finds a validation failure, the references are looked at too, so that all that is
 * wrong is told at once. What blames the form of a property comes before what it refers to.
 */
export async function checkedWithReferences<T>(check: () => T, references: RefusalsOfReferences): Promise<T> {
  try {
    return check()
  } catch (thrown) {
    if (!(thrown instanceof WaybillError) || thrown.code !== 'INVALID_INPUT') throw thrown
    const details = { ...(await references()), ...thrown.details } as Record<string, string>
    throw validationFailure(details)
  }
}

function refusals(issues: readonly z.core.$ZodIssue[]): Record<string, string> {
  const details = new Map<string, string>()
  const add = (property: string, text: string): void => {
    if (!details.has(property)) details.set(property, text)
  }
  for (const issue of issues) {
    const [top, ...inner] = issue.path
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        if (top === undefined) add(key, 'unknown property')
        else add(String(top), `${place(inner)}unknown property ${key}`)
      }
    } else {
      add(top === undefined ? FORM : String(top), `${place(inner)}${issue.message}`)
    }
  }
  return Object.fromEntries(details)
}

/** Where inside a property: `entry 2, name: `. Entries are counted from 1, as people do. */
function place(inner: readonly PropertyKey[]): string {
  const steps = inner.map((step) => (typeof step === 'number' ? `entry ${step + 1}` : String(step)))
  return steps.length === 0 ? '' : `${steps.join(', ')}: `
}

const NOUNS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
}

/** Our own words for what zod finds. A message written at the schema comes before these. */
function wordsFor(issue: z.core.$ZodRawIssue): string | undefined {
  const { code } = issue
  if (code === 'invalid_type') {
    return issue.input === undefined ? 'is required' : `must be ${NOUNS[issue.expected] ?? issue.expected}`
  }
  if (code === 'invalid_value') {
    return issue.input === undefined ? 'is required' : `must be one of ${issue.values.map(String).join(', ')}`
  }
  if (code === 'too_small') return limitText(issue.origin, 'at least', issue.minimum)
  if (code === 'too_big') return limitText(issue.origin, 'at most', issue.maximum)
  if (code === 'invalid_format') return `must be a valid ${issue.format}`
  return undefined
}

function limitText(origin: string, bound: string, limit: number | bigint): string {
  if (origin === 'string') return `must have ${bound} ${limit} ${limit === 1 ? 'character' : 'characters'}`
  if (origin === 'array') return `must have ${bound} ${limit} ${limit === 1 ? 'entry' : 'entries'}`
  return `must be ${bound} ${limit}`
}

/**
 * The properties of `values` whose text cannot be stored: with the character NUL, which PostgreSQL has not in text,
 * or with half a surrogate pair, which is no character at all.
 */
export function unstorableProperties(values: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.keys(values).filter((property) => !storable(property) || holdsUnstorable(values[property]))
}

function holdsUnstorable(root: unknown): boolean {
  const open: unknown[] = [root]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string' && !storable(value)) return true
    if (typeof value !== 'object' || value === null) continue
    for (const [key, inner] of Object.entries(value)) {
      if (!storable(key)) return true
      open.push(inner)
    }
  }
  return false
}

function storable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
