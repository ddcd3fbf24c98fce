import { z, type ZodObject, type ZodType } from 'zod'
import { endpoint, type Caller, type Endpoint } from './endpoint.ts'
import type { ErrorCode } from '../errors.ts'
import { listOf, recordId, type Page, type PageRequest } from './paging.ts'
import type { Change, RecordRules } from './record-rules.ts'

/** What a resource of records is made of; the five endpoints that every such resource has come out of it. */
export interface Resource<S extends ZodObject, A extends ZodType, Q extends ZodObject, T> {
  /** Below `/api/v1`. One record is at `<path>/{id}`. */
  readonly path: string
  readonly tag: string
  /** Key of the list, such as `organizations`. */
  readonly plural: string
  /** In summaries, with its article: `an organization`. */
  readonly noun: string
  /** In operation ids: `Organization`. Its plural has an s. */
  readonly record: string
  /** What the id in the path is. */
  readonly idText: string
  /** In which order the list comes. */
  readonly orderText: string
  /** Paging and filters. */
  readonly query: Q
  readonly rules: RecordRules<S>
  readonly answer: A
  readonly records: {
    readonly list: (query: z.output<Q>) => Promise<Page<T>>
    readonly get: (id: number) => Promise<T>
    readonly create: (values: z.output<S>, caller: Caller) => Promise<T>
    readonly update: (id: number, change: Change<z.output<S>>, caller: Caller) => Promise<T>
    readonly delete: (id: number, caller: Caller) => Promise<void>
    /** What an unchecked body refers to and is not there, by property. */
    readonly refusalsOfReferences?: (
      body: Readonly<Record<string, unknown>>,
    ) => Promise<Readonly<Record<string, string>>>
  }
  readonly shown: (record: T) => z.input<A>
  /** What the OpenAPI document says beside the summaries. */
  readonly notes: { readonly create: string; readonly update: string; readonly delete: string }
  readonly errors?: {
    readonly create?: readonly ErrorCode[]
    readonly update?: readonly ErrorCode[]
    readonly delete?: readonly ErrorCode[]
  }
}

/** List, create, get, update and delete (specification, 2.1 rules 4 to 7). */
export function resourceEndpoints<S extends ZodObject, A extends ZodType, Q extends ZodObject, T>(
  resource: Resource<S, A, Q, T>,
): readonly Endpoint[] {
  return [...collection(resource), ...single(resource)]
}

function collection<S extends ZodObject, A extends ZodType, Q extends ZodObject, T>(
  resource: Resource<S, A, Q, T>,
): readonly Endpoint[] {
  const { path, tag, plural, noun, record, answer, rules, query, records, shown, notes, errors } = resource
  return [
    endpoint({
      method: 'GET',
      path,
      operationId: `list${record}s`,
      summary: `List ${plural}`,
      description: `A page of them, ${resource.orderText}. \`total\` counts all that match the filters.`,
      tag,
      query,
      answer: {
        kind: 'data',
        status: 200,
        schema: listOf(plural, answer),
        description: `The page, ${resource.orderText}.`,
      },
      handle: async (request) => {
        const { items, total } = await records.list(request.query)
        // Every list's query has the paging parameters; the generic type does not show it.
        const { limit, offset } = request.query as unknown as PageRequest
        return { [plural]: items.map(shown), total, limit, offset } as never
      },
    }),
    endpoint({
      method: 'POST',
      path,
      operationId: `create${record}`,
      summary: `Create ${noun}`,
      description: notes.create,
      tag,
      body: {
        kind: 'create',
        rules,
        references: async (body) => (await records.refusalsOfReferences?.(body)) ?? {},
      },
      answer: { kind: 'data', status: 201, schema: answer, description: 'The stored record.' },
      errors: errors?.create ?? [],
      handle: async ({ body, caller }) => shown(await records.create(body, caller)),
    }),
  ]
}

function single<S extends ZodObject, A extends ZodType, Q extends ZodObject, T>(
  resource: Resource<S, A, Q, T>,
): readonly Endpoint[] {
  const { tag, noun, record, answer, rules, records, shown, notes, errors } = resource
  const path = `${resource.path}/{id}`
  const params = z.object({ id: recordId.describe(resource.idText) })
  const stored = { kind: 'data', status: 200, schema: answer, description: 'The stored record.' } as const
  return [
    endpoint({
      method: 'GET',
      path,
      operationId: `get${record}`,
      summary: `Get ${noun}`,
      description: 'The stored record, in the shape that an item of the list has.',
      tag,
      params,
      answer: stored,
      handle: async (request) => shown(await records.get(request.path.id)),
    }),
    endpoint({
      method: 'PUT',
      path,
      operationId: `update${record}`,
      summary: `Update ${noun}`,
      description: notes.update,
      tag,
      params,
      body: { kind: 'update', rules },
      answer: stored,
      errors: errors?.update ?? [],
      handle: async (request) => {
        return shown(await records.update(request.path.id, request.body, request.caller))
      },
    }),
    endpoint({
      method: 'DELETE',
      path,
      operationId: `delete${record}`,
      summary: `Delete ${noun}`,
      description: notes.delete,
      tag,
      params,
      answer: { kind: 'empty', description: 'Deleted.' },
      errors: errors?.delete ?? [],
      handle: async (request) => {
        await records.delete(request.path.id, request.caller)
        return undefined
      },
    }),
  ]
}
