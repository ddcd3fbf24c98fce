import { z, type ZodObject, type ZodType } from 'zod'
import type { RecordRules } from '../../../runtime/endpoint/record-rules.ts'
import { asObject, isList, isObject, plain, type Json, type JsonObject } from './json.ts'
import { COMMON_PROPERTIES } from './text.ts'

/** JSON Schema from zod, with every named schema as a component of the document. */

/** Collects components by name. Two different schemas of one name are a defect and throw. */
export interface Components {
  readonly schemas: Map<string, JsonObject>
}

/** `output` for what the server answers, `input` for what it takes. */
export function schemaOf(schema: ZodType, io: 'input' | 'output', components: Components): JsonObject {
  const { $schema: _, $defs, ...root } = convert(schema, io)
  for (const [name, definition] of Object.entries(isObject($defs) ? $defs : {})) {
    addComponent(components, name, asObject(worded(withComponentRefs(definition))))
  }
  return asObject(worded(withComponentRefs(root)))
}

/** Properties that mean the same everywhere have their description here, unless the schema has one of its own. */
function worded(value: Json): Json {
  if (isList(value)) return value.map(worded)
  if (!isObject(value)) return value
  const entries = Object.entries(value).map(([key, inner]): [string, Json] =>
    key === 'properties' && isObject(inner) ? [key, wordedProperties(inner)] : [key, worded(inner)],
  )
  return Object.fromEntries(entries)
}

function wordedProperties(properties: JsonObject): JsonObject {
  const entries = Object.entries(properties).map(([name, property]): [string, Json] => {
    const inner = asObject(worded(property))
    const description = COMMON_PROPERTIES[name]
    const silent = inner['description'] === undefined && inner['$ref'] === undefined
    return [name, silent && description !== undefined ? { ...inner, description } : inner]
  })
  return Object.fromEntries(entries)
}

/** The properties of an object schema, for parameters. */
export function parametersOf(
  schema: ZodObject,
  place: 'path' | 'query' | 'header',
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
  place: 'path' | 'query' | 'header',
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
  const { required, description: of, ...rest } = schema
  const about =
    kind === 'create'
      ? 'A new record. A property that is left out has its default.'
      : 'What to change. A property that is left out keeps its value.'
  const description = typeof of === 'string' ? `${of} ${about}` : about
  const body = { ...rest, description, properties }
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
    // The schema of a property that only answers have is not known here.
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
