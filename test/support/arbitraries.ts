import fc from 'fast-check'
import type { JsonSchema } from './described-api.ts'

/** Random values from the schemas of the served document, and values that no schema has in mind. */

export interface Hints {
  /** Values that properties and parameters of a name must have: references to what is there, places to write to. */
  readonly byName: (name: string) => fc.Arbitrary<unknown> | undefined
  readonly resolve: (ref: string) => JsonSchema
}

/** A value as the schema says, as far as the schema says it. */
export function valueOf(schema: JsonSchema, hints: Hints, name = ''): fc.Arbitrary<unknown> {
  const hinted = hints.byName(name)
  if (hinted !== undefined) return hinted
  const { $ref, anyOf, oneOf, enum: values } = schema
  if (typeof $ref === 'string') return valueOf(hints.resolve($ref), hints, name)
  if ('const' in schema) return fc.constant(schema.const)
  const choices = anyOf ?? oneOf
  if (choices !== undefined) return fc.oneof(...choices.map((choice) => valueOf(choice, hints, name)))
  if (values !== undefined) return fc.constantFrom(...values)
  const types = Array.isArray(schema.type) ? schema.type : [schema.type]
  return fc.oneof(...types.map((type) => ofType(type, schema, hints)))
}

function ofType(type: string | undefined, schema: JsonSchema, hints: Hints): fc.Arbitrary<unknown> {
  if (type === 'object') return objectOf(schema, hints)
  if (type === 'array') {
    return fc.array(valueOf(schema.items ?? {}, hints), { maxLength: Math.min(schema.maxItems ?? 3, 3) })
  }
  if (type === 'integer' || type === 'number') {
    const { minimum = -2, maximum = 2_147_483_647 } = schema
    return fc.integer({ min: minimum, max: Math.min(maximum, 2_147_483_647) })
  }
  if (type === 'boolean') return fc.boolean()
  if (type === 'null') return fc.constant(null)
  return type === 'string' ? textOf(schema) : fc.jsonValue()
}

/** All required properties and any of the others; what a client cannot set is left out. */
export function objectOf(schema: JsonSchema, hints: Hints): fc.Arbitrary<Record<string, unknown>> {
  const properties = Object.entries(schema.properties ?? {}).filter(([, { readOnly }]) => readOnly !== true)
  const model = Object.fromEntries(properties.map(([name, each]) => [name, valueOf(each, hints, name)]))
  return fc.record(model, { requiredKeys: (schema.required ?? []).filter((name) => name in model) })
}

function textOf({
  pattern,
  format,
  minLength = 0,
  maxLength = 40,
  examples,
}: JsonSchema): fc.Arbitrary<string> {
  const bounds = { minLength, maxLength: Math.min(maxLength, minLength + 40) }
  const given = (examples ?? []).filter((each): each is string => typeof each === 'string')
  const free = fc.string({ ...bounds, unit: 'grapheme' })
  const made = pattern === undefined ? free : matching(pattern, bounds.maxLength)
  const byFormat = format === undefined ? made : fc.constantFrom(...(FORMATS[format] ?? ['text']))
  return given.length === 0 ? byFormat : fc.oneof(byFormat, fc.constantFrom(...given))
}

const FORMATS: Readonly<Record<string, readonly string[]>> = {
  'date-time': ['2026-03-02T09:30:00.000Z', '1999-12-31T23:59:59+14:00'],
  date: ['2026-03-02'],
  uuid: ['0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68'],
  uri: ['http://127.0.0.1:9/as2', 'https://127.0.0.1:9/x?y=1'],
}

/** Some text that an expression takes; what the generator cannot make of it is made without it. */
function matching(pattern: string, maxLength: number): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'), { maxLength })
  } catch {
    return fc.string({ maxLength })
  }
}

const deep = (depth: number): unknown => JSON.parse('[{"a":'.repeat(depth) + '1' + '}]'.repeat(depth))

/** JSON that is of the wrong type, too large, too deep, or not to be stored. */
export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(
    '',
    ' ',
    '\0',
    '\ud800',
    '\u202e',
    '../../etc/passwd',
    "'; drop table organization; --",
    '${jndi:ldap://127.0.0.1}',
    '<script>',
    'x'.repeat(70_000),
    'é'.repeat(70),
    -1,
    0,
    -0,
    1.5,
    1e308,
    2 ** 31,
    2 ** 53,
    null,
    true,
    [],
    {},
    [[]],
    [null],
    { __proto__: null, constructor: 1 },
    JSON.parse('{"__proto__":{"name":"polluted"}}'),
    deep(500),
    Array.from({ length: 2_000 }, (_, at) => at),
  ),
)

/** The same as one step of a path or the value of a parameter. */
export const hostileText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ maxLength: 20, unit: 'grapheme' }),
  fc.constantFrom(
    '0',
    '-1',
    '1.5',
    '1e3',
    '2147483648',
    '9'.repeat(40),
    'NaN',
    '*',
    '\0',
    '%00',
    "' or 1=1",
    '..',
    '__proto__',
    'constructor',
    'x'.repeat(2_000),
    '\u{1f600}',
    '2026-02-30T00:00:00Z',
    '00000000-0000-0000-0000-000000000000',
  ),
)
