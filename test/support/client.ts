import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse } from 'yaml'

/** What a test asks for beside method and path. */
export interface Asking {
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent as it is, with the headers alone. */
  readonly raw?: string | Uint8Array<ArrayBuffer>
  /** Sent as `multipart/form-data`, with X-Requested-With. */
  readonly parts?: Readonly<Record<string, string | Uint8Array<ArrayBuffer>>>
  readonly headers?: Readonly<Record<string, string>>
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** Empty for a failure and for an answer that is no envelope. */
  readonly data: Readonly<Record<string, unknown>>
  readonly error: {
    readonly code: string
    readonly message: string
    readonly details?: Record<string, unknown>
  } | null
  /** The whole body. */
  readonly text: string
}

interface Operation {
  readonly responses: Readonly<Record<string, { readonly $ref?: string }>>
}

/**
 * A client of the REST API over real HTTP. It holds every JSON answer against the schema of the OpenAPI document
 * that the server itself serves, and throws when they differ.
 */
export class ApiClient {
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #checker: AnswerChecker | null

  private constructor(
    base: string,
    headers: Readonly<Record<string, string>>,
    checker: AnswerChecker | null,
  ) {
    this.#base = base
    this.#headers = headers
    this.#checker = checker
  }

  /** `base` is the address with the prefix of the API. */
  static async connect(base: string): Promise<ApiClient> {
    const answer = await fetch(`${base}/openapi.yaml`)
    if (!answer.ok) throw new Error(`The OpenAPI document is answered with ${answer.status}`)
    return new ApiClient(base, {}, new AnswerChecker(await answer.text()))
  }

  /** A client that sends these headers always and holds the answers against nothing. */
  static bare(base: string, headers: Readonly<Record<string, string>> = {}): ApiClient {
    return new ApiClient(base, headers, null)
  }

  async ask(method: string, path: string, asking: Asking = {}): Promise<Answer> {
    const answer = await fetch(this.#base + path, { method, ...this.#requestOf(method, asking) })
    const text = await answer.text()
    const type = answer.headers.get('content-type') ?? ''
    const body: unknown = type.startsWith('application/json') && text !== '' ? JSON.parse(text) : null
    this.#checker?.check({ method, path: path.split('?', 1)[0] ?? path, status: answer.status, body })
    const envelope = (body ?? {}) as { data?: Answer['data']; error?: Answer['error'] }
    return {
      status: answer.status,
      headers: answer.headers,
      data: envelope.data ?? {},
      error: envelope.error ?? null,
      text,
    }
  }

  get(path: string, asking?: Asking): Promise<Answer> {
    return this.ask('GET', path, asking)
  }

  post(path: string, body: unknown = {}): Promise<Answer> {
    return this.ask('POST', path, { body })
  }

  put(path: string, body: unknown): Promise<Answer> {
    return this.ask('PUT', path, { body })
  }

  delete(path: string): Promise<Answer> {
    return this.ask('DELETE', path, { headers: { 'content-type': 'application/json' } })
  }

  /** Creates a record that must be accepted, and answers it. */
  async create(path: string, body: unknown): Promise<Answer['data']> {
    const answer = await this.post(path, body)
    if (answer.status !== 201) throw new Error(`POST ${path} is answered with ${answer.text}`)
    return answer.data
  }

  #requestOf(
    method: string,
    asking: Asking,
  ): { headers: Record<string, string>; body?: NonNullable<RequestInit['body']> } {
    const { body, raw, parts, headers } = asking
    const given = { ...this.#headers, ...headers }
    if (parts !== undefined) return { headers: { 'x-requested-with': 'test', ...given }, body: formOf(parts) }
    if (raw !== undefined) return { headers: given, body: raw }
    if (body === undefined || method === 'GET') return { headers: given }
    return { headers: { 'content-type': 'application/json', ...given }, body: JSON.stringify(body) }
  }
}

function formOf(parts: NonNullable<Asking['parts']>): FormData {
  const form = new FormData()
  for (const [name, content] of Object.entries(parts)) {
    if (typeof content === 'string') form.set(name, content)
    else form.set(name, new Blob([content]), `${name}.bin`)
  }
  return form
}

/** Finds an answer's schema in the OpenAPI document by method, path and status. */
class AnswerChecker {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true })
  readonly #paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>

  constructor(document: string) {
    const parsed = parse(document) as { paths: Record<string, Record<string, Operation>> }
    this.#paths = parsed.paths
    this.#ajv.addFormat(
      'date-time',
      (text: string) => !Number.isNaN(Date.parse(text)) && /T.*(Z|[+-]\d\d:\d\d)$/.test(text),
    )
    this.#ajv.addFormat('uuid', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    this.#ajv.addFormat('uri', (text: string) => URL.canParse(text))
    this.#ajv.addSchema(parsed, 'openapi')
  }

  check(answer: { method: string; path: string; status: number; body: unknown }): void {
    const { method, path, status, body } = answer
    const template = this.#templateOf(path)
    const operation = template === undefined ? undefined : this.#paths[template]?.[method.toLowerCase()]
    // An unknown path or method is in no document.
    if (template === undefined || operation === undefined) return
    const described = operation.responses[String(status)]
    if (described === undefined)
      throw new Error(`${method} ${template} does not describe the status ${status}`)
    if (body === null) return
    const place =
      described.$ref?.slice(1) ?? `/paths/${escaped(template)}/${method.toLowerCase()}/responses/${status}`
    const valid = this.#ajv.validate({ $ref: `openapi#${place}/content/application~1json/schema` }, body)
    if (valid) return
    const problems = this.#ajv.errorsText(this.#ajv.errors)
    throw new Error(`The answer to ${method} ${path} (${status}) is not as described: ${problems}`)
  }

  /** The path itself comes before one with parameters. */
  #templateOf(path: string): string | undefined {
    if (path in this.#paths) return path
    return Object.keys(this.#paths).find((template) =>
      new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path),
    )
  }
}

/** RFC 6901 §3, within a URI fragment. */
function escaped(step: string): string {
  return encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))
}
