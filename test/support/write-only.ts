import type { ApiClient } from './client.ts'
import type { Canaries } from './canaries.ts'
import type { JsonSchema } from './described-api.ts'

/** The write-only properties of the served document: one that is added joins the tests by itself. */

const JSON_TYPE = 'application/json'

export interface SecretRecord {
  /** `As2RemoteProfile`, or a plugin type. */
  readonly name: string
  /** Where it is created, with the query. */
  readonly path: string
  /** Where one is changed, with parameters in braces. */
  readonly single: string
  /** The write-only properties of its creation. */
  readonly properties: Readonly<Record<string, JsonSchema>>
}

/** Every record whose creation takes write-only properties. */
export function secretRecordsOf(client: ApiClient): readonly SecretRecord[] {
  const operations = client.operations()
  return operations.flatMap(({ method, path, operation }) => {
    const schema = operation.requestBody?.content[JSON_TYPE]?.schema
    if (method !== 'POST' || schema === undefined) return []
    const single = operations.find((each) => each.method === 'PUT' && each.path.startsWith(`${path}/{`))
    return variantsOf(client, schema).flatMap(({ name, schema: variant }) => {
      const properties = writeOnlyOf(variant)
      if (Object.keys(properties).length === 0) return []
      if (single === undefined) throw new Error(`${path} takes secrets, and nothing changes them`)
      const record = { single: single.path, properties }
      if (!single.path.endsWith('/{type}/{name}')) return [{ name, path, ...record }]
      const type = pluginTypeOf(name)
      return [{ name: type, path: `${path}?type=${type}`, ...record }]
    })
  })
}

/** The names of the write-only properties of every body and of every answer, by operation. */
export function writeOnlyNames(client: ApiClient): {
  readonly bodies: Readonly<Record<string, readonly string[]>>
  readonly answers: Readonly<Record<string, readonly string[]>>
} {
  const bodies: Record<string, readonly string[]> = {}
  const answers: Record<string, readonly string[]> = {}
  for (const { method, path, operation } of client.operations()) {
    const body = operation.requestBody?.content[JSON_TYPE]?.schema
    for (const { name, schema } of body === undefined ? [] : variantsOf(client, body)) {
      const names = Object.keys(writeOnlyOf(schema))
      if (names.length > 0) bodies[`${method} ${path} ${name}`] = names.toSorted()
    }
    for (const status of Object.keys(operation.responses)) {
      const within: string | undefined = JSON.stringify(
        everythingIn(client, client.described.answerSchema(operation, Number(status))),
      )
      if (within !== undefined && within.includes('"writeOnly":true'))
        answers[`${method} ${path} ${status}`] = [within]
    }
  }
  return { bodies, answers }
}

/** The schema of `http-poster` is called `HttpPosterConfigurationCreation`. */
function pluginTypeOf(name: string): string {
  const words = name.replace(/Configuration(Creation|Change)$/, '')
  return words.replaceAll(/(?!^)[A-Z]/g, (letter) => `-${letter}`).toLowerCase()
}

function writeOnlyOf(schema: JsonSchema): Record<string, JsonSchema> {
  return Object.fromEntries(
    Object.entries(schema.properties ?? {}).filter(([, each]) =>
      JSON.stringify(each).includes('"writeOnly":true'),
    ),
  )
}

function variantsOf(
  client: ApiClient,
  schema: JsonSchema,
  name = '',
): readonly { readonly name: string; readonly schema: JsonSchema }[] {
  const { $ref, anyOf } = schema
  if ($ref !== undefined) {
    return variantsOf(client, client.described.schema($ref), $ref.slice($ref.lastIndexOf('/') + 1))
  }
  return anyOf === undefined ? [{ name, schema }] : anyOf.flatMap((each) => variantsOf(client, each, name))
}

/** The schema with those that it refers to, each once. */
function everythingIn(client: ApiClient, schema: unknown, within = new Set<string>()): unknown {
  if (typeof schema !== 'object' || schema === null) return schema
  const ref = (schema as JsonSchema).$ref
  if (ref !== undefined) {
    if (within.has(ref)) return null
    return everythingIn(client, client.described.schema(ref), within.add(ref))
  }
  return Array.isArray(schema)
    ? schema.map((each) => everythingIn(client, each, within))
    : Object.fromEntries(
        Object.entries(schema).map(([key, each]) => [key, everythingIn(client, each, within)]),
      )
}

/** A value as the schema asks for, with a secret in every text of it. */
export function secretFor(schema: JsonSchema, canaries: Canaries, place: string): unknown {
  const { type, items, properties, format } = schema
  if (type === 'array') return [secretFor(items ?? {}, canaries, place)]
  if (type === 'object') {
    const each = Object.entries(properties ?? {})
    return Object.fromEntries(
      each.map(([name, inner]) => [name, secretFor(inner, canaries, `${place}.${name}`)]),
    )
  }
  const secret = canaries.make(place)
  return format === 'uri' ? `http://127.0.0.1:9/${secret}` : secret
}

/** Values that are refused as a rule, each for another reason, with a secret in them. */
export function wrongSecrets(canaries: Canaries, place: string): readonly unknown[] {
  const secret = (): string => canaries.make(`${place}, refused`)
  return [
    [secret()],
    { value: secret() },
    [{ name: secret(), value: 7 }],
    [{ name: 'X-Secret', value: secret(), more: secret() }],
    [{ name: `X ${secret()}`, value: `${secret()}\n` }],
    [{ name: 'Host', value: secret() }],
    `${secret()}\n`,
    `${secret()}\u0000`,
    `${secret()}\ud800`,
    secret().repeat(300),
    `whsec_${secret()}`,
    `https://waybill:${secret()}@erp.example/`,
    `https://erp.example/?token=${secret()}`,
    `ftp://erp.example/${secret()}`,
    `${secret()}://${secret()}`,
  ]
}
