import { z, type ZodObject } from 'zod'
import { checked, checkedBeside } from './validation.ts'

/**
 * The rules of a record's writable properties: one set for the API, the web form and the OpenAPI document. The
 * schema is strict and gives every optional property its default, that of the form's create page.
 */
export interface RecordRules<S extends ZodObject = ZodObject> {
  /** Name of the record in the OpenAPI document, such as `Organization`. */
  readonly name: string
  readonly schema: S
  /** Properties of an answer that a client cannot set. Sent back, they are ignored. */
  readonly readOnly: readonly string[]
  /** Property to path parameter: what a body must not name differently from the path. */
  readonly identity: Readonly<Record<string, string>>
}

/** The name of a record: organizations, partners, plugin instances (specification, 2.2 and 2.6). */
export const recordName = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[a-z0-9_-]*$/, { error: 'may have lower case letters, digits, _ and - only' })

/** A body to be applied to a stored record. */
export interface Change<T> {
  /** The properties that the body has. */
  readonly sent: ReadonlySet<string>
  /** Those properties, not yet checked. */
  readonly unchecked: Readonly<Record<string, unknown>>
  /** The stored properties with those of the body, checked as a whole; throws a validation failure. */
  readonly applyTo: (stored: T) => T
}

/** A new record's properties, defaults filled in. What only a stored record has is ignored. */
export function checkedCreation<S extends ZodObject>(
  rules: RecordRules<S>,
  body: Readonly<Record<string, unknown>>,
): z.output<S> {
  const stored = [...rules.readOnly, ...Object.keys(rules.identity)].filter(
    (name) => !(name in rules.schema.shape),
  )
  return checked(rules.schema, without(body, stored))
}

/**
 * The change that a body asks for. A property that it leaves out keeps its value; one that names another record
 * than the path is refused when the change is applied, because an unknown record is told first. `path` holds the
 * checked parameters: an id that is a number there is no text in the body.
 */
export function changeFrom<S extends ZodObject>(
  rules: RecordRules<S>,
  body: Readonly<Record<string, unknown>>,
  path: Readonly<Record<string, unknown>>,
): Change<z.output<S>> {
  const identity = Object.keys(rules.identity)
  const writable = without(body, [...rules.readOnly, ...identity])
  return {
    sent: new Set(Object.keys(writable)),
    unchecked: writable,
    applyTo: (stored) => {
      const foreign = Object.entries(rules.identity).filter(
        ([property, parameter]) => property in body && body[property] !== path[parameter],
      )
      const refused = Object.fromEntries(
        foreign.map(([property, parameter]) => [
          property,
          typeof path[parameter] === 'number' && typeof body[property] !== 'number'
            ? 'must be a number'
            : 'must be that of the record in the path',
        ]),
      )
      return checkedBeside(refused, rules.schema, { ...stored, ...writable })
    },
  }
}

function without(
  values: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)))
}
