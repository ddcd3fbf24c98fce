import { isDeepStrictEqual } from 'node:util'
import { hasValue } from '../secrets/kept-secrets.ts'

/** What a change has changed, field by field. */

export interface FieldChange {
  readonly field: string
  /** Left out when the record is new. */
  readonly old?: unknown
  /** Left out when the record is deleted. */
  readonly new?: unknown
  /** The field is a secret that was set, changed or removed; neither value is told. */
  readonly secret?: true
}

export interface ChangesOptions {
  /** Fields whose values nobody may read. */
  readonly secret?: readonly string[]
  /** Fields that are no matter of the log, beside those that are never. */
  readonly leaveOut?: readonly string[]
}

/** What a record is known by, and what changes by itself. */
const LEFT_OUT = ['id', 'created_at', 'updated_at', 'last_used_at']

/** Names of secrets, whoever asks: one that a caller forgets to name must not reach the log. */
const ALWAYS_SECRET = [
  'password',
  'basic_password',
  'http_basic_password',
  'headers',
  'http_headers',
  'client_secret',
  'signing_secret',
  'private_key',
  'material',
  'secrets',
  'token',
  'token_sha256',
]

const LONGEST_TEXT = 1_000
const LONGEST_JSON = 4_000
const MOST_FIELDS = 200

/**
 * What lies between two states of a record, in the order of the fields. `old` is null for a record that is created,
 * `next` for one that is deleted. A field that is absent, undefined or null is nothing; from nothing to nothing is no
 * change. Values are compared as JSON shows them.
 *
 * A secret is compared as it is given, so give it opened or not at all: sealed twice, the same text differs.
 */
export function changesBetween(
  old: object | null,
  next: object | null,
  options: ChangesOptions = {},
): FieldChange[] {
  const before = fieldsOf(old)
  const after = fieldsOf(next)
  const secret = new Set([...ALWAYS_SECRET, ...(options.secret ?? [])])
  const leaveOut = new Set([...LEFT_OUT, ...(options.leaveOut ?? [])])
  const changes: FieldChange[] = []
  for (const field of new Set([...before.keys(), ...after.keys()])) {
    const isSecret = secret.has(field)
    const was = present(before.get(field), isSecret)
    const is = present(after.get(field), isSecret)
    if (leaveOut.has(field) || isDeepStrictEqual(was, is)) continue
    if (isSecret) changes.push({ field, secret: true })
    else if (old === null) changes.push({ field, new: bounded(is) })
    else if (next === null) changes.push({ field, old: bounded(was) })
    else changes.push({ field, old: bounded(was), new: bounded(is) })
  }
  return changes.slice(0, MOST_FIELDS)
}

/** A secret that is empty is none: nobody sets one by leaving it empty. */
function present(value: unknown, isSecret: boolean): unknown {
  return isSecret && !hasValue(value) ? null : (value ?? null)
}

function fieldsOf(record: object | null): Map<string, unknown> {
  return new Map(Object.entries(record ?? {}).map(([field, value]) => [field, shownAsJson(value)]))
}

/** As an answer would show it: a Date is its text, what is undefined is not there. */
function shownAsJson(value: unknown): unknown {
  if (value === undefined || value === null) return null
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`
  return JSON.parse(JSON.stringify(value) ?? 'null') as unknown
}

/** A value of any size, as much of it as the log keeps. */
function bounded(value: unknown): unknown {
  if (typeof value === 'string') return boundedText(value, LONGEST_TEXT)
  if (typeof value !== 'object' || value === null) return value
  const text = JSON.stringify(value)
  return text.length <= LONGEST_JSON ? value : boundedText(text, LONGEST_TEXT)
}

/** A text that the database can store, with an ellipsis for what is left out. */
export function boundedText(text: string, longest: number): string {
  const cut = text.length <= longest ? text : `${text.slice(0, longest - 1)}…`
  return cut.toWellFormed().replaceAll('\0', '\u{fffd}')
}
