import fc from 'fast-check'
import { hostileText, objectOf, valueOf, type Hints } from './arbitraries.ts'
import type { Asking } from './client.ts'
import type { DescribedOperation, JsonSchema, Parameter } from './described-api.ts'
import { hostileFor, type Population } from './population.ts'

/** Random and hostile requests of an operation, from its description. */

const JSON_TYPE = 'application/json'

type Body = Pick<Asking, 'raw' | 'parts' | 'headers'>

function jsonBody(schema: JsonSchema, hints: Hints): fc.Arbitrary<Body> {
  const { anyOf, $ref } =
    typeof schema.$ref === 'string' ? { $ref: undefined, ...hints.resolve(schema.$ref) } : schema
  if (anyOf !== undefined) return fc.oneof(...anyOf.map((each) => jsonBody(each, hints)))
  const resolved =
    typeof $ref === 'string'
      ? hints.resolve($ref)
      : schema.$ref === undefined
        ? schema
        : hints.resolve(schema.$ref)
  const valid = objectOf(resolved, hints)
  const names = Object.keys(resolved.properties ?? {})
  // An operation without a body is asked something else more rarely.
  const often = names.length === 0 ? 20 : 4
  const spoilt = fc
    .tuple(valid, names.length === 0 ? fc.constant('x') : fc.constantFrom(...names))
    .chain(([body, name]) => hostileFor(name).map((value) => withProperty(body, name, value)))
  const strange = fc
    .tuple(valid, fc.oneof(fc.string({ maxLength: 10 }), fc.constantFrom('__proto__', 'constructor', 'Name')))
    .map(([body, name]) => withProperty(body, name, 1))
  const json = fc.oneof(
    { weight: often, arbitrary: valid },
    { weight: 4, arbitrary: spoilt },
    { weight: 1, arbitrary: strange },
    { weight: 1, arbitrary: fc.jsonValue() },
  )
  return fc.oneof(
    {
      weight: 9,
      arbitrary: json.map((value) => ({
        raw: JSON.stringify(value),
        headers: { 'content-type': JSON_TYPE },
      })),
    },
    { weight: 1, arbitrary: hostileText.map((raw) => ({ raw, headers: { 'content-type': JSON_TYPE } })) },
  )
}

/** One that is called __proto__ is a property as any other, as it is in JSON. */
function withProperty(body: object, name: string, value: unknown): object {
  return Object.fromEntries([...Object.entries(body), [name, value]])
}

/** A form of the described parts and of strange ones, or something that is no form. */
function form(schema: JsonSchema, hints: Hints): fc.Arbitrary<Body> {
  const names = Object.keys(schema.properties ?? {})
  const content = fc.oneof(
    hostileText,
    fc.uint8Array({ maxLength: 300 }).map((bytes) => new Uint8Array(bytes)),
    fc.constant('x'.repeat(100_000)),
  )
  const described = fc.record(
    Object.fromEntries(
      names.map((name) => [name, (hints.byName(name) as fc.Arbitrary<string> | undefined) ?? content]),
    ),
    { requiredKeys: [] },
  )
  const strange = fc.dictionary(fc.constantFrom('__proto__', 'constructor', 'toString', 'x', ''), content, {
    maxKeys: 2,
  })
  const parts = fc.tuple(described, strange).map(([one, other]) => ({ parts: { ...one, ...other } }))
  const lines = fc.array(
    fc.constantFrom(
      '--x',
      '--x--',
      '',
      'Content-Disposition: form-data; name="file"; filename="a"',
      'Content-Disposition: form-data; name="__proto__"',
      'Content-Type: a',
      'data',
    ),
    { maxLength: 12 },
  )
  const headers = { 'content-type': 'multipart/form-data; boundary=x', 'x-requested-with': 'test' }
  const broken = lines.map((each) => ({ raw: each.join('\r\n'), headers }))
  return fc.oneof({ weight: 3, arbitrary: parts as fc.Arbitrary<Body> }, { weight: 1, arbitrary: broken })
}

function bodyOf({ operation }: DescribedOperation, hints: Hints): fc.Arbitrary<Body> {
  const { content = {} } = operation.requestBody ?? {}
  const json = content[JSON_TYPE]?.schema
  const multipart = content['multipart/form-data']?.schema
  if (json !== undefined) return jsonBody(json, hints)
  return multipart === undefined ? fc.constant({}) : form(multipart, hints)
}

/** One that exists, one of the right kind, or anything. */
function parameterText({ name, schema }: Parameter, path: string, hints: Population): fc.Arbitrary<string> {
  const there: Readonly<Record<string, readonly string[]>> = {
    id: path.startsWith('/messages') ? [hints.messageId] : ['1', '2'],
    // No instance is started: its directory would be used.
    type: path.startsWith('/services')
      ? ['api-server']
      : ['file-poller', 'file-writer', 'as2-sender', 'as2-receiver'],
    name: path.startsWith('/services') ? ['main'] : ['poller', 'writer', 'sender'],
    action: ['start', 'stop', 'restart'],
    delivery_id: [hints.deliveryId],
  }
  const valid = valueOf(schema, hints, name).map(String)
  const existing = there[name]
  return fc.oneof(
    ...(existing === undefined ? [] : [{ weight: 4, arbitrary: fc.constantFrom(...existing) }]),
    { weight: 2, arbitrary: valid },
    { weight: 2, arbitrary: hostileText },
  )
}

const HEADER_NAMES = [
  'accept',
  'authorization',
  'content-type',
  'cookie',
  'forwarded',
  'idempotency-key',
  'if-match',
  'if-none-match',
  'last-event-id',
  'origin',
  'range',
  'x-forwarded-for',
  'x-http-method-override',
  'x-requested-with',
] as const

/** Most requests have the headers of their body alone. */
const hostileHeaders: fc.Arbitrary<Readonly<Record<string, string>>> = fc.oneof(
  { weight: 5, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc.dictionary(
      fc.constantFrom(...HEADER_NAMES),
      fc.oneof(
        fc.stringMatching(/^[\x20-\x7e]{0,40}$/),
        fc.constantFrom(
          'x'.repeat(4_000),
          'Bearer ',
          'bytes=0-',
          'null',
          'application/json;',
          'multipart/form-data',
        ),
      ),
      { maxKeys: 3 },
    ),
  },
)

export interface Request {
  readonly path: string
  readonly asking: Body
}

export function requestOf(described: DescribedOperation, hints: Population): fc.Arbitrary<Request> {
  const { path, operation } = described
  const parameters = operation.parameters ?? []
  const texts = (place: Parameter['in']) =>
    parameters
      .filter((each) => each.in === place)
      .map((each) => parameterText(each, path, hints).map((text) => [each.name, text] as const))
  const steps = fc.tuple(...texts('path'))
  const named = texts('query')
  const query = fc
    .tuple(
      named.length === 0 ? fc.constant([]) : fc.array(fc.oneof(...named), { maxLength: 4 }),
      fc.array(fc.tuple(hostileText, hostileText), { maxLength: 1 }),
      // What a creation cannot do without.
      fc.tuple(...named.filter((_, at) => parameters.filter((each) => each.in === 'query')[at]?.required)),
    )
    .map(([some, strange, needed]) => {
      const others = some.filter(([name]) => !needed.some(([other]) => other === name))
      return [needed, others, strange].flat()
    })
  const asking = fc
    .tuple(bodyOf(described, hints), hostileHeaders)
    .map(([body, headers]): Body =>
      Object.assign({}, body, { headers: Object.assign({}, body.headers, headers) }),
    )
  return fc.tuple(steps, query, asking).map(([values, pairs, asked]) => ({
    path:
      filled(path, new Map(values)) +
      (pairs.length === 0
        ? ''
        : `?${new URLSearchParams(pairs.map(([name, text]): [string, string] => [wellFormed(name), wellFormed(text)])).toString()}`),
    asking: asked,
  }))
}

export function filled(template: string, values: ReadonlyMap<string, string>): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => stepOf(values.get(name) ?? '1'))
}

/** A client would resolve steps of dots by itself. */
function stepOf(text: string): string {
  const encoded = encodeURIComponent(wellFormed(text))
  return encoded === '' || /^\.+$/.test(encoded) ? 'dots' : encoded
}

const wellFormed = (text: string): string => text.toWellFormed()
