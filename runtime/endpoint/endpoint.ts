import type { Readable } from 'node:stream'
import type { z, ZodObject, ZodType } from 'zod'
import type { ErrorCode } from '../errors.ts'
import { validationFailure } from '../errors.ts'
import type { Log } from '../log.ts'
import { checkedCreation, changeFrom, type Change, type RecordRules } from './record-rules.ts'
import {
  checked,
  checkedHeaders,
  checkedQuery,
  checkedWithReferences,
  unstorableProperties,
} from './validation.ts'

/**
 * An endpoint is one description: method, path, schemas, the errors it may give and a handler. Validation, envelope
 * and OpenAPI document come out of it. Nothing here knows the HTTP server, so that a module hands its endpoints over
 * as data.
 */

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** Who asks. One object that travels to the handlers, so that rights can be added in one place. */
export interface Caller {
  /** As history and logs name the caller: `sa:<name>`, a user's subject, `developer` or `system`. */
  readonly name: string
  /** How the caller proved who it is; `process` is Waybill itself, or a command on its machine. */
  readonly credential: 'none' | 'developer-build' | 'api-token' | 'identity-token' | 'process'
  /** Which one: the public id of an API token, the name of an identity provider. */
  readonly credentialName?: string
}

/** What the program does by itself, and what the operator does on the command line. */
export const SYSTEM_CALLER: Caller = Object.freeze({ name: 'system', credential: 'process' })

/** What every handler gets beside the parsed request. */
export interface RequestContext {
  readonly caller: Caller
  /** Carries the request id and the caller in every line. */
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

/** A file of an upload while it comes in: what its part says of it, and its bytes. */
export interface IncomingFile {
  /** As the client calls it; empty for none. */
  readonly fileName: string
  /** A media type in lower case without parameters; `text/plain` where the part says nothing. */
  readonly contentType: string
  readonly bytes: Readable
}

/** What was made of an incoming file. */
export interface ReceivedFile {
  /** Undoes it: the request is refused or has failed. */
  readonly discard: () => Promise<void>
}

/**
 * The parts of a `multipart/form-data` body by name. A text part is a field, a part with a file name a file: held in
 * memory, or received while it came in.
 */
export interface UploadedParts<R extends ReceivedFile = ReceivedFile> {
  readonly files: ReadonlyMap<string, UploadedFile>
  /** In their order, where a name may come more than once. */
  readonly received: ReadonlyMap<string, readonly R[]>
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
  /** What an action is told that makes or changes no record of its own. */
  | {
      readonly kind: 'action'
      /** In the OpenAPI document. */
      readonly name: string
      readonly schema: ZodObject
      /** A request without a body counts as one with an empty object. */
      readonly optional?: true
    }
  | {
      readonly kind: 'upload'
      /** Bound of the whole body; of all files together where they are received while they come in. */
      readonly maxBytes: number
      /**
       * Takes a file while it comes in, whatever part it is; without it files are held in memory. It rejects when
       * `bytes` fails, and has left nothing behind then.
       */
      readonly receive?: (file: IncomingFile) => Promise<ReceivedFile>
      /** Of received files, which may come more than once, and how often; then all files together have the bound. */
      readonly several?: Readonly<Record<string, number>>
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
  /** One of several successes, each with a status of its own and `{data, error: null}` around what its schema says. */
  | {
      readonly kind: 'choice'
      readonly byStatus: Readonly<Record<number, { readonly schema: ZodType; readonly description: string }>>
    }
  | { readonly kind: 'empty'; readonly description: string }
  /** JSON without the envelope, with one schema for all statuses. */
  | {
      readonly kind: 'bare'
      readonly schema: ZodType
      readonly descriptions: Readonly<Record<number, string>>
    }
  | { readonly kind: 'file'; readonly contentType: string; readonly description: string }
  /** Server-Sent Events, until one of the two sides ends them. */
  | {
      readonly kind: 'events'
      /** By the names of events: what their data is. */
      readonly events: Readonly<Record<string, { readonly schema: ZodType; readonly description: string }>>
      readonly description: string
    }

/** Bytes as an answer. `fileName` makes it a download. */
export interface FileAnswer {
  readonly contentType: string
  readonly fileName?: string
  readonly bytes: Uint8Array | Readable
}

/** A stream of events that has not begun. A request for its head alone never begins it. */
export interface EventsAnswer {
  /** Prepares the stream; what it throws is the answer. What it answers is called when the head has been sent. */
  readonly open: () => Promise<(connection: EventConnection) => void>
}

/** The way to the client of an event stream. Its keep-alive comments and its end are the HTTP face's matter. */
export interface EventConnection {
  /** Fires when the stream is over, whoever ended it. */
  readonly closed: AbortSignal
  /** The client has not read what was written: more should wait. */
  readonly isFull: boolean
  /** Whole events as they are sent. They must not be changed afterwards. */
  readonly write: (events: Uint8Array) => void
  /** Runs `action` each time the client has read all, after the connection was full. */
  readonly onDrain: (action: () => void) => void
  /** Ends the stream with a last event. A client that does not read it either is cut off. */
  readonly finish: (last: Uint8Array) => void
}

export interface BareAnswer<T> {
  readonly status: number
  readonly body: T
}

/** The success that was chosen. */
export interface ChosenAnswer<Status, T> {
  readonly status: Status
  readonly data: T
}

type ChosenOf<C> = {
  [Status in keyof C]: C[Status] extends { schema: infer S extends ZodType }
    ? ChosenAnswer<Status, z.input<S>>
    : never
}[keyof C]

type BodyOf<B> = B extends { kind: 'create'; rules: RecordRules<infer S> }
  ? z.output<S>
  : B extends { kind: 'update'; rules: RecordRules<infer S> }
    ? Change<z.output<S>>
    : B extends { kind: 'action'; schema: infer S extends ZodObject }
      ? z.output<S>
      : B extends { kind: 'create' }
        ? Record<string, unknown>
        : B extends { kind: 'update' }
          ? Change<Record<string, unknown>>
          : B extends {
                kind: 'upload'
                receive: (file: IncomingFile) => Promise<infer R extends ReceivedFile>
              }
            ? UploadedParts<R>
            : B extends { kind: 'upload' }
              ? UploadedParts
              : undefined

type ResultOf<A> = A extends { kind: 'data'; schema: infer S extends ZodType }
  ? z.input<S>
  : A extends { kind: 'choice'; byStatus: infer C }
    ? ChosenOf<C>
    : A extends { kind: 'bare'; schema: infer S extends ZodType }
      ? BareAnswer<z.input<S>>
      : A extends { kind: 'file' }
        ? FileAnswer
        : A extends { kind: 'events' }
          ? EventsAnswer
          : undefined

/** The parsed request, typed from the description. */
export interface EndpointRequest<
  P extends ZodObject,
  Q extends ZodObject,
  B,
  H extends ZodObject,
> extends RequestContext {
  readonly path: z.output<P>
  readonly query: z.output<Q>
  readonly headers: z.output<H>
  readonly body: BodyOf<B>
}

export interface EndpointDescription<
  P extends ZodObject,
  Q extends ZodObject,
  B extends BodyDescription | undefined,
  A extends AnswerDescription,
  H extends ZodObject,
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
  /** The headers that the handler reads, by their names in the usual case. */
  readonly headers?: H
  readonly body?: B
  readonly answer: A
  /** Codes beside those that the mechanism itself gives. */
  readonly errors?: readonly ErrorCode[]
  readonly handle: (request: EndpointRequest<P, Q, B, H>) => Promise<ResultOf<A>> | ResultOf<A>
}

/** What the HTTP face has read of a request and not yet checked. */
export interface UncheckedRequest extends RequestContext {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, unknown>>
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
  readonly headers: ZodObject | undefined
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
  H extends ZodObject,
>(description: EndpointDescription<P, Q, B, A, H>): Endpoint {
  const { params, query, headers, body } = description
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
    headers,
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
        headers: (headers === undefined ? {} : checkedHeaders(headers, request.headers)) as z.output<H>,
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
  if (body.kind === 'action') return checked(body.schema, value)
  const rules = 'choose' in body.rules ? body.rules.choose(request) : body.rules
  if (body.kind === 'update') return changeFrom(rules, value, path)
  const { references = async () => ({}) } = body
  return checkedWithReferences(
    () => checkedCreation(rules, value),
    () => references(value, request.query),
  )
}

/** Why a file cannot come under this name. */
export function refusalOfFile(body: BodyDescription & { kind: 'upload' }, name: string): string {
  return name in body.fields ? 'must be text, not a file' : 'unknown part'
}

function checkedParts(body: BodyDescription & { kind: 'upload' }, parts: UploadedParts): UploadedParts {
  const refused: Record<string, string> = {}
  for (const name of parts.files.keys()) {
    if (!(name in body.files)) refused[name] = refusalOfFile(body, name)
  }
  for (const name of parts.fields.keys()) {
    if (!(name in body.fields)) refused[name] = name in body.files ? 'must be a file' : 'unknown part'
  }
  for (const name of body.required) {
    if (!parts.files.has(name) && !parts.received.has(name) && !parts.fields.has(name))
      refused[name] ??= 'is required'
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
