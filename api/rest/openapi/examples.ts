import { asObject, isList, isObject, type Json, type JsonObject } from './json.ts'
import type { Components } from './schemas.ts'

/**
 * Examples made from schemas: what a schema gives as an example of its own, else its constant, first value or default,
 * else something of its type. A test holds every example against its schema.
 */

const BY_FORMAT: Readonly<Record<string, string>> = {
  'date-time': '2026-03-02T09:30:00.000Z',
  date: '2026-03-02',
  uuid: '0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68',
  uri: 'https://as2.globex.example/as2',
}

const BY_NAME: Readonly<Record<string, Json>> = {
  name: 'globex',
  display_name: 'Globex Corporation',
  description: 'Signs since March',
  details: {},
}

/** The example for one schema, with references resolved. `property` is what the value is called. */
export function exampleFor(schema: JsonObject, components: Components, property = ''): Json {
  const { $ref, examples, anyOf, oneOf } = schema
  if (isList(examples) && examples[0] !== undefined) return examples[0]
  if (typeof $ref === 'string') return exampleFor(resolved($ref, components), components, property)
  if (schema['const'] !== undefined) return schema['const']
  const choice = isList(anyOf) ? anyOf : isList(oneOf) ? oneOf : undefined
  const [first] = choice ?? []
  if (first !== undefined) return exampleFor(asObject(first), components, property)
  const values = schema['enum']
  const [value] = isList(values) ? values : []
  const preset = schema['default']
  if (preset !== undefined && preset !== '' && !isList(preset)) return preset
  if (value !== undefined) return value
  return ofType(schema, components, property)
}

function ofType(schema: JsonObject, components: Components, property: string): Json {
  const { type, format, items, minimum } = schema
  const base = isList(type) ? type.find((each) => each !== 'null') : type
  if (base === 'object') return ofObject(schema, components)
  if (base === 'array') return isObject(items) ? [exampleFor(items, components)] : []
  if (base === 'integer' || base === 'number') return typeof minimum === 'number' ? Math.max(minimum, 1) : 1
  if (base === 'boolean') return true
  if (base === 'null') return null
  return (typeof format === 'string' ? BY_FORMAT[format] : undefined) ?? BY_NAME[property] ?? 'text'
}

/** Every property but those that a client cannot set: these are only ever sent back. */
function ofObject(schema: JsonObject, components: Components): Json {
  const { properties } = schema
  const entries = Object.entries(isObject(properties) ? properties : {})
  return Object.fromEntries(
    entries
      .filter(([, inner]) => asObject(inner)['readOnly'] !== true)
      .map(([name, inner]) => [name, exampleFor(asObject(inner), components, name)]),
  )
}

function resolved(ref: string, components: Components): JsonObject {
  const schema = components.schemas.get(nameOf(ref))
  if (schema === undefined) throw new Error(`There is no schema ${nameOf(ref)}`)
  return schema
}

function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

/**
 * What stands beside the schema of a body: one example, or, for a choice of named schemas, one of each under its
 * name.
 */
export function examplesOf(
  schema: JsonObject,
  components: Components,
  wrap: (example: Json) => Json = (example) => example,
): JsonObject {
  const { $ref } = schema
  const { anyOf } = typeof $ref === 'string' ? resolved($ref, components) : schema
  if (!isList(anyOf) || anyOf.length < 2) return { example: wrap(exampleFor(schema, components)) }
  const named = anyOf.map((each): [string, Json] => {
    const choice = asObject(each)
    const { $ref: ref } = choice
    const name = typeof ref === 'string' ? nameOf(ref) : ''
    const { description } = typeof ref === 'string' ? resolved(ref, components) : choice
    const value = wrap(exampleFor(choice, components))
    return [name, description === undefined ? { value } : { summary: description, value }]
  })
  return { examples: Object.fromEntries(named) }
}
