import { z, type ZodObject, type ZodType } from 'zod'
import type { RecordRules } from '../../../runtime/endpoint/record-rules.ts'

/** JSON Schema from zod, with every named schema as a component of the document. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { readonly [name: string]: Json }

/** Collects components by name. Two different schemas of one name are a defect and throw. */
export interface Components {
  readonly schemas: Map<string, JsonObject>
}

/** `output` for what the server answers, `input` for what it takes. */
export function schemaOf(schema: ZodType, io: 'input' | 'output', components: Components): JsonObject {
  const { $schema: _, $defs, ...root } = convert(schema, io)
  for (const [name, definition] of Object.entries(isObject($defs) ? $defs : {})) {
    addComponent(components, name, asObject(withComponentRefs(definition)))
  }
  return asObject(withComponentRefs(root))
}

/** The properties of an object schema, for parameters. */
export function parametersOf(
  schema: ZodObject,
  place: 'path' | 'query',
  components: Components,
): JsonObject[] {
  const { properties, required } = schemaOf(schema, 'input', components)
  const needed: readonly Json[] = Array.isArray(required) ? required : []
  return Object.entries(isObject(properties) ? properties : {}).map(([name, property]) =>
    parameterOf(name, asObject(property), place, needed.includes(name)),
  )
}

function parameterOf(
  name: string,
  property: JsonObject,
  place: 'path' | 'query',
  needed: boolean,
): JsonObject {
  // A parameter whose absence has a code of its own is optional to its schema and says here that it is required.
  const { description, required: said, ...schema } = property
  const base = { name, in: place, required: place === 'path' || needed || said === true, schema }
  return description === undefined ? base : { ...base, description }
}

/** A reference to the body of a creation or of an update, which adds its component. */
export function bodyOf(rules: RecordRules, kind: 'create' | 'update', components: Components): JsonObject {
  const name = kind === 'create' ? `${rules.name}Creation` : `${rules.name}Change`
  const schema = schemaOf(rules.schema, 'input', components)
  const own = asObject(schema['properties'] ?? {})
  const properties = {
    ...(kind === 'create' ? own : withoutDefaults(own)),
    ...Object.fromEntries(ignoredProperties(rules, own, kind)),
  }
  const { required, ...rest } = schema
  const body = { ...rest, properties }
  addComponent(components, name, kind === 'update' || required === undefined ? body : { ...body, required })
  return { $ref: `#/components/schemas/${name}` }
}

function ignoredProperties(rules: RecordRules, own: JsonObject, kind: 'create' | 'update'): [string, Json][] {
  const ignored = rules.readOnly.map((name): [string, Json] => [
    name,
    { readOnly: true, description: 'Ignored when it is sent back.' },
  ])
  const naming = Object.keys(rules.identity).map((name): [string, Json] => {
    const description =
      kind === 'update' ? 'Must be that of the record in the path.' : 'Ignored when it is sent.'
    return [name, name in own ? { ...asObject(own[name] ?? {}), description } : { description }]
  })
  return [...ignored, ...naming.filter(([name]) => kind === 'update' || !(name in own))]
}

/** An update has no defaults: what it leaves out keeps its value. */
function withoutDefaults(properties: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => {
      const { default: _, ...rest } = asObject(property)
      return [name, rest]
    }),
  )
}

export function addComponent(components: Components, name: string, schema: JsonObject): void {
  const known = components.schemas.get(name)
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema)) {
    throw new Error(`Two different schemas are named ${name}`)
  }
  components.schemas.set(name, schema)
}

function convert(schema: ZodType, io: 'input' | 'output'): JsonObject {
  const converted = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    override: ({ jsonSchema }) => {
      // The format says it; the expression behind it helps nobody.
      if (jsonSchema.format === 'date-time' || jsonSchema.format === 'uuid') delete jsonSchema.pattern
      // A parameter's default is text for the parser and a number for the reader.
      if (jsonSchema.type === 'integer' && typeof jsonSchema.default === 'string') {
        jsonSchema.default = Number(jsonSchema.default)
      }
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
    },
  })
  return asObject(plain(converted))
}

/** The same value as JSON data, without what JSON does not know. */
function plain(value: unknown): Json {
  const data: Json = JSON.parse(JSON.stringify(value))
  return data
}

function withComponentRefs(value: Json): Json {
  if (isList(value)) return value.map(withComponentRefs)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      name === '$ref' && typeof inner === 'string'
        ? inner.replace('#/$defs/', '#/components/schemas/')
        : withComponentRefs(inner),
    ]),
  )
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value)
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function asObject(value: Json): JsonObject {
  if (!isObject(value)) throw new Error('A JSON Schema is an object')
  return value
}
