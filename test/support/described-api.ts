import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { parse } from 'yaml'

/** One answer and what was asked for it. */
export interface Exchange {
  readonly method: string
  /** Below the API's prefix, without query. */
  readonly path: string
  readonly status: number
  readonly headers: Headers
  /** The whole body. */
  readonly text: string
  /** The JSON body that was sent, or the names of the parts of a form; undefined for none. */
  readonly sent: { readonly json: unknown } | { readonly parts: readonly string[] } | undefined
}

/** The part of JSON Schema that the document uses. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly additionalProperties?: JsonSchema | boolean
  readonly maxItems?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: string
  readonly examples?: readonly unknown[]
  readonly readOnly?: boolean
  readonly writeOnly?: boolean
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly schema: JsonSchema
}

export interface Operation {
  readonly operationId: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaType>> }
  readonly responses: Readonly<Record<string, Answer | { readonly $ref: string }>>
}

export interface DescribedOperation {
  readonly method: string
  /** With parameters in braces. */
  readonly path: string
  /** Whether it takes a form. */
  readonly upload: boolean
  readonly operation: Operation
}

interface MediaType {
  readonly schema: JsonSchema
}

interface Answer {
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>
  readonly content?: Readonly<Record<string, MediaType>>
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly headers: Readonly<Record<string, { readonly required?: boolean }>>
    readonly responses: Readonly<Record<string, Answer>>
    readonly schemas: Readonly<Record<string, JsonSchema>>
  }
}

/** What a request may be told whose path or method is in no document. */
const WITHOUT_OPERATION: Readonly<Record<number, readonly string[]>> = {
  400: ['INVALID_INPUT'],
  401: ['MISSING_AUTH_HEADER', 'INVALID_AUTH_HEADER', 'INVALID_TOKEN', 'TOKEN_EXPIRED'],
  404: ['NOT_FOUND'],
  405: ['METHOD_NOT_ALLOWED'],
}

/** Holds answers, and requests that succeed, against the OpenAPI document that the server serves. */
export class DescribedApi {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true })
  /** By the place of the schema: to compile one takes far longer than to use it. */
  readonly #validators = new Map<string, ValidateFunction>()
  readonly #document: Document

  constructor(yaml: string) {
    this.#document = parse(yaml) as Document
    this.#ajv.addFormat(
      'date-time',
      (text: string) => !Number.isNaN(Date.parse(text)) && /T.*(Z|[+-]\d\d:\d\d)$/.test(text),
    )
    this.#ajv.addFormat('date', /^\d{4}-\d\d-\d\d$/)
    this.#ajv.addFormat('uuid', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    this.#ajv.addFormat('uri', (text: string) => URL.canParse(text))
    this.#ajv.addSchema(this.#document, 'openapi')
  }

  get operations(): readonly DescribedOperation[] {
    return Object.entries(this.#document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        upload: 'multipart/form-data' in (operation.requestBody?.content ?? {}),
        operation,
      })),
    )
  }

  schema(ref: string): JsonSchema {
    const schema = this.#document.components.schemas[ref.slice(ref.lastIndexOf('/') + 1)]
    if (schema === undefined) throw new Error(`The document has no ${ref}`)
    return schema
  }

  /** The schema of an answer of JSON, with its envelope; undefined for none. */
  answerSchema({ responses }: Operation, status: number): JsonSchema | undefined {
    const described = responses[String(status)]
    if (described === undefined) return undefined
    const answer = '$ref' in described ? this.#answerOf(described.$ref) : described
    return answer.content?.['application/json']?.schema
  }

  /** The names of all properties in a schema, at any depth. */
  propertiesOf(schema: JsonSchema | undefined, within: readonly string[] = []): readonly string[] {
    if (schema === undefined) return []
    const { $ref, properties = {}, anyOf = [], oneOf = [], items, additionalProperties } = schema
    if ($ref !== undefined) {
      return within.includes($ref) ? [] : this.propertiesOf(this.schema($ref), [...within, $ref])
    }
    const further = typeof additionalProperties === 'object' ? [additionalProperties] : []
    const inner = [
      ...Object.values(properties),
      ...anyOf,
      ...oneOf,
      ...further,
      ...(items === undefined ? [] : [items]),
    ]
    return [...Object.keys(properties), ...inner.flatMap((each) => this.propertiesOf(each, within))]
  }

  /** Throws when the exchange is not as described. */
  check(exchange: Exchange): void {
    const { method, path, status, headers } = exchange
    const what = `${method} ${path} (${status})`
    if (headers.get('x-request-id') === null) throw new Error(`${what} has no X-Request-Id`)
    // HEAD is the answer to GET without its body.
    const name = method === 'HEAD' ? 'get' : method.toLowerCase()
    const template = this.#templateOf(path)
    const operation = template === undefined ? undefined : this.#document.paths[template]?.[name]
    if (template === undefined || operation === undefined) return this.#checkWithoutOperation(exchange, what)
    const described = operation.responses[String(status)]
    if (described === undefined) throw new Error(`${what}: the document does not have the status`)
    const place =
      '$ref' in described
        ? described.$ref.slice(1)
        : `/paths/${escaped(template)}/${name}/responses/${status}`
    const answer = '$ref' in described ? this.#answerOf(described.$ref) : described
    this.#checkHeaders(answer, headers, what)
    if (method !== 'HEAD') this.#checkBody(answer, place, exchange, what)
    if (status < 300) this.#checkRequest(operation, `/paths/${escaped(template)}/${name}`, exchange, what)
  }

  #checkWithoutOperation({ status, method, text }: Exchange, what: string): void {
    const codes = WITHOUT_OPERATION[status]
    if (codes === undefined && !(method === 'OPTIONS' && status === 204)) {
      throw new Error(`${what} is answered, and no document has it`)
    }
    if (codes === undefined || method === 'HEAD') return
    const { data, error } = JSON.parse(text) as { data: unknown; error: { code: string } }
    if (data !== null || !codes.includes(error.code)) throw new Error(`${what} is answered with ${text}`)
  }

  #answerOf(ref: string): Answer {
    const answer = this.#document.components.responses[ref.slice(ref.lastIndexOf('/') + 1)]
    if (answer === undefined) throw new Error(`The document has no ${ref}`)
    return answer
  }

  #checkHeaders(answer: Answer, headers: Headers, what: string): void {
    for (const name of Object.keys(answer.headers ?? {})) {
      const { required = false } = this.#document.components.headers[name] ?? {}
      if (required && headers.get(name) === null) throw new Error(`${what} lacks the header ${name}`)
    }
  }

  #checkBody({ content }: Answer, place: string, { headers, text, status }: Exchange, what: string): void {
    if (content === undefined) {
      if (text !== '') throw new Error(`${what} has a body, and none is described`)
      return
    }
    const type = (headers.get('content-type') ?? '').split(';', 1)[0] ?? ''
    if (!(type in content)) throw new Error(`${what} has the content type ${type}, which is not described`)
    if (type !== 'application/json') return
    const body: unknown = JSON.parse(text)
    this.#validate(`${place}/content/application~1json/schema`, body, `The answer to ${what}`)
    const code = (body as { error?: { code?: string } | null }).error?.code
    if (status >= 400 && code === undefined && status !== 503) throw new Error(`${what} has no code`)
  }

  #checkRequest({ requestBody }: Operation, place: string, { sent }: Exchange, what: string): void {
    if (sent === undefined) return
    if (requestBody === undefined) throw new Error(`${what} took a body, and none is described`)
    if ('json' in sent) {
      const schema = `${place}/requestBody/content/application~1json/schema`
      this.#validate(schema, sent.json, `The body of ${what}`)
      return
    }
    const form = requestBody.content['multipart/form-data']?.schema
    const unknown = sent.parts.filter((name) => !(name in (form?.properties ?? {})))
    const missing = (form?.required ?? []).filter((name) => !sent.parts.includes(name))
    if (unknown.length + missing.length > 0) {
      throw new Error(`${what} took a form with ${unknown.join()} and without ${missing.join()}`)
    }
  }

  #validate(place: string, value: unknown, what: string): void {
    const validate = this.#validators.get(place) ?? this.#ajv.compile({ $ref: `openapi#${place}` })
    this.#validators.set(place, validate)
    if (validate(value)) return
    throw new Error(`${what} is not as described: ${this.#ajv.errorsText(validate.errors)}`)
  }

  /** The path itself comes before one with parameters. */
  #templateOf(path: string): string | undefined {
    const { paths } = this.#document
    const given = decoded(path)
    if (given in paths) return given
    return Object.keys(paths).find((template) =>
      new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(given),
    )
  }
}

function decoded(path: string): string {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** RFC 6901 §3, within a URI fragment. */
function escaped(step: string): string {
  return encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))
}
