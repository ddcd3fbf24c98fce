import { DescribedApi, type DescribedOperation, type Exchange } from './described-api.ts'

const ANSWER_LIMIT_MS = 120_000

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

/**
 * A client of the REST API over real HTTP. It holds every answer, and every request that succeeds, against the OpenAPI
 * document that the server itself serves, and throws when they differ.
 */
export class ApiClient {
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #described: DescribedApi | null

  private constructor(
    base: string,
    headers: Readonly<Record<string, string>>,
    described: DescribedApi | null,
  ) {
    this.#base = base
    this.#headers = headers
    this.#described = described
  }

  /** `base` is the address with the prefix of the API. */
  static async connect(base: string): Promise<ApiClient> {
    const answer = await fetch(`${base}/openapi.yaml`)
    if (!answer.ok) throw new Error(`The OpenAPI document is answered with ${answer.status}`)
    return new ApiClient(base, {}, new DescribedApi(await answer.text()))
  }

  /** A client that sends these headers always and holds the answers against nothing. */
  static bare(base: string, headers: Readonly<Record<string, string>> = {}): ApiClient {
    return new ApiClient(base, headers, null)
  }

  async ask(method: string, path: string, asking: Asking = {}): Promise<Answer> {
    const answer = await fetch(this.#base + path, {
      method,
      ...this.#requestOf(method, asking),
      // No answer may take so long: a test that waits for one without end tells nothing.
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    })
    const text = await answer.text()
    const type = answer.headers.get('content-type') ?? ''
    const body: unknown = type.startsWith('application/json') && text !== '' ? JSON.parse(text) : null
    const { status, headers } = answer
    const sent = sentBy(method, asking)
    this.#described?.check({ method, path: path.split('?', 1)[0] ?? path, status, headers, text, sent })
    const envelope = (body ?? {}) as { data?: Answer['data']; error?: Answer['error'] }
    return {
      status: answer.status,
      headers: answer.headers,
      data: envelope.data ?? {},
      error: envelope.error ?? null,
      text,
    }
  }

  /** The served document. */
  get described(): DescribedApi {
    if (this.#described === null) throw new Error('This client knows no document')
    return this.#described
  }

  operations(): readonly DescribedOperation[] {
    return this.described.operations
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

/** What a request sends in a body, as the document describes it. */
function sentBy(method: string, { body, raw, parts }: Asking): Exchange['sent'] {
  if (method === 'GET' || method === 'HEAD') return undefined
  if (parts !== undefined) return { parts: Object.keys(parts) }
  if (typeof raw === 'string') return raw === '' ? undefined : { json: jsonOf(raw) }
  return body === undefined ? undefined : { json: body }
}

function jsonOf(text: string): unknown {
  try {
    // A byte order mark is no part of the text.
    return JSON.parse(text.replace(/^\ufeff/, ''))
  } catch {
    return text
  }
}
