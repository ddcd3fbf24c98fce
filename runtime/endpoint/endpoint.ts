import type { Readable } from 'node:stream'
import type { z, ZodObject, ZodType } from 'zod'
import type { ErrorCode } from '../errors.ts'
import { validationFailure } from '../errors.ts'
import type { Log } from '../log.ts'
import { checkedCreation, changeFrom, type Change, type RecordRules } from './record-rules.ts'
import { checked, checkedQuery, checkedWithReferences, unstorableProperties } from './validation.ts'

/**
 * An endpoint is one description: method, path, schemas, the errors it may give and a handler. Validation, envelope
 * and OpenAPI document come out of it. Nothing here knows the HTTP server, so that a module hands its endpoints over
 * as data.
 */

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** Who asks. One object that travels to the handlers, so that rights can be added in one place. */
export interface Caller {
  /** As history and logs name the caller. */
  readonly name: string
  readonly credential: 'none' | 'developer-build'
}

/** What every handler gets beside the parsed request. */
export interface RequestContext {
  readonly caller: Caller
  /** Carries the request id in every line. */
  readonly log: Pick<Log, 'debug' | 'info' | 'warn' | 'error'>
  readonly requestId: string
  /** Fires when the client goes away before the answer is complete. */
  readonly signal: AbortSignal
}

/** A file of an upload, whole in memory: its endpoint bounds it. */
export interface UploadedFile {
  readonly fileName: string
  readonly bytes: Buffer
}

/** The parts of a `multipart/form-data` body by name. A text part is a field, a part with a file name a file. */
export interface UploadedParts {
  readonly files: ReadonlyMap<string, UploadedFile>
  readonly fields: ReadonlyMap<string, string>
}

/** Rules that depend on path or query, such as those of a plugin type. `all` is for the OpenAPI document. */
export interface ChosenRules {
  readonly choose: (names: NamesOfRequest) => RecordRules
  readonly all: readonly RecordRules[]
  /** The name of the union in the OpenAPI document. */
  readonly name: string
}

export interface NamesOfRequest {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
}

export type BodyDescription =
  | {
      readonly kind: 'create'
      readonly rules: RecordRules | ChosenRules
      /** References that a refused body names and that are not there; a body that passes is checked when it is stored. */
      readonly references?: (
        body: Readonly<Record<string, unknown>>,
        query: Readonly<Record<string, unknown>>,
      ) => Promise<Readonly<Record<string, string>>>
    }
  | { readonly kind: 'update'; readonly rules: RecordRules | ChosenRules }
  | {
      readonly kind: 'upload'
      /** Bound of the whole body. */
      readonly maxBytes: number
      /** Name and meaning of each part; those of `required` must be there. */
      readonly files: Readonly<Record<string, string>>
      readonly fields: Readonly<Record<string, string>>
      readonly required: readonly string[]
    }

export type AnswerDescription =
  /** `{data, error: null}` around what the schema says. */
  | {
      readonly kind: 'data'
      readonly status: 200 | 201
      readonly schema: ZodType
      readonly description: string
    }
  | { readonly kind: 'empty'; readonly description: string }
  /** JSON without the envelope, with one schema for all statuses. */
  | {
      readonly kind: 'bare'
      readonly schema: ZodType
      readonly descriptions: Readonly<Record<number, string>>
    }
  | { readonly kind: 'file'; readonly contentType: string; readonly description: string }

/** Bytes as an answer. `fileName` makes it a download. */
export interface FileAnswer {
  readonly contentType: string
  readonly fileName?: string
  readonly bytes: Uint8Array | Readable
}

export interface BareAnswer<T> {
  readonly status: number
  readonly body: T
}

type BodyOf<B> = B extends { kind: 'create'; rules: RecordRules<infer S> }
  ? z.output<S>
  : B extends { kind: 'update'; rules: RecordRules<infer S> }
    ? Change<z.output<S>>
    : B extends { kind: 'create' }
      ? Record<string, unknown>
      : B extends { kind: 'update' }
        ? Change<Record<string, unknown>>
        : B extends { kind: 'upload' }
          ? UploadedParts
          : undefined

type ResultOf<A> = A extends { kind: 'data'; schema: infer S extends ZodType }
  ? z.input<S>
  : A extends { kind: 'bare'; schema: infer S extends ZodType }
    ? BareAnswer<z.input<S>>
    : A extends { kind: 'file' }
      ? FileAnswer
      : undefined

/** The parsed request, typed from the description. */
export interface EndpointRequest<P extends ZodObject, Q extends ZodObject, B> extends RequestContext {
  readonly path: z.output<P>
  readonly query: z.output<Q>
  readonly body: BodyOf<B>
}

export interface EndpointDescription<
  P extends ZodObject,
  Q extends ZodObject,
  B extends BodyDescription | undefined,
  A extends AnswerDescription,
> {
  readonly method: Method
  /** Below `/api/v1`, with parameters in braces: `/organizations/{id}`. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tag: string
  /** Needs no credential. */
  readonly public?: true
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  readonly answer: A
  /** Codes beside those that the mechanism itself gives. */
  readonly errors?: readonly ErrorCode[]
  readonly handle: (request: EndpointRequest<P, Q, B>) => Promise<ResultOf<A>> | ResultOf<A>
}

/** What the HTTP face has read of a request and not yet checked. */
export interface UncheckedRequest extends RequestContext {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  readonly body: UncheckedBody
}

export type UncheckedBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'json'; readonly value: Readonly<Record<string, unknown>> }
  | { readonly kind: 'upload'; readonly parts: UploadedParts }

/** An endpoint as the HTTP face and the OpenAPI document see it: the types of its schemas are closed inside. */
export interface Endpoint {
  readonly method: Method
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description: string | undefined
  readonly tag: string
  readonly public: boolean
  readonly params: ZodObject | undefined
  readonly query: ZodObject | undefined
  readonly body: BodyDescription | undefined
  readonly answer: AnswerDescription
  readonly errors: readonly ErrorCode[]
  /** Checks the request against the schemas and handles it. Throws a WaybillError for what it refuses. */
  readonly handle: (request: UncheckedRequest) => Promise<unknown>
}

export function endpoint<
  P extends ZodObject,
  Q extends ZodObject,
  const B extends BodyDescription | undefined,
  A extends AnswerDescription,
>(description: EndpointDescription<P, Q, B, A>): Endpoint {
  const { params, query, body } = description
  return {
    method: description.method,
    path: description.path,
    operationId: description.operationId,
    summary: description.summary,
    description: description.description,
    tag: description.tag,
    public: description.public ?? false,
    params,
    query,
    body,
    answer: description.answer,
    errors: description.errors ?? [],
    handle: async (request) => {
      refuseUnstorable(request.path)
      refuseUnstorable(request.query)
      // The casts hold what `checked` makes when the description leaves a schema out: nothing reads it then.
      const path = (params === undefined ? {} : checked(params, request.path)) as z.output<P>
      const parsed = {
        ...request,
        path,
        query: (query === undefined ? {} : checkedQuery(query, request.query)) as z.output<Q>,
        body: (await parseBody(body, request, path)) as BodyOf<B>,
      }
      return description.handle(parsed)
    },
  }
}

async function parseBody(
  body: BodyDescription | undefined,
  request: UncheckedRequest,
  path: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  if (body === undefined) return undefined
  if (body.kind === 'upload') {
    if (request.body.kind !== 'upload') throw new Error('The HTTP face gave an upload endpoint another body')
    return checkedParts(body, request.body.parts)
  }
  if (request.body.kind !== 'json') throw new Error('The HTTP face gave a JSON endpoint another body')
  const { value } = request.body
  refuseUnstorable(value)
  const rules = 'choose' in body.rules ? body.rules.choose(request) : body.rules
  if (body.kind === 'update') return changeFrom(rules, value, path)
  const { references = async () => ({}) } = body
  return checkedWithReferences(
    () => checkedCreation(rules, value),
    () => references(value, request.query),
  )
}

function checkedParts(body: BodyDescription & { kind: 'upload' }, parts: UploadedParts): UploadedParts {
  const refused: Record<string, string> = {}
  for (const name of parts.files.keys()) {
    if (!(name in body.files))
      refused[name] = name in body.fields ? 'must be text, not a file' : 'unknown part'
  }
  for (const name of parts.fields.keys()) {
    if (!(name in body.fields)) refused[name] = name in body.files ? 'must be a file' : 'unknown part'
  }
  for (const name of body.required) {
    if (!parts.files.has(name) && !parts.fields.has(name)) refused[name] ??= 'is required'
  }
  if (Object.keys(refused).length > 0) throw validationFailure(refused)
  refuseUnstorable(Object.fromEntries(parts.fields))
  return parts
}

function refuseUnstorable(values: Readonly<Record<string, unknown>>): void {
  const properties = unstorableProperties(values)
  if (properties.length === 0) return
  throw validationFailure(
    Object.fromEntries(
      properties.map((property) => [property, 'must be well-formed text without the character NUL']),
    ),
  )
}
