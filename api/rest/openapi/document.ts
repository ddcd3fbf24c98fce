import { stringify } from 'yaml'
import type { Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import type { Webhook } from '../../../runtime/module.ts'
import { answersOf, requestBody } from './bodies.ts'
import { failuresOf, FAILURE_DETAILS } from './failures.ts'
import type { JsonObject } from './json.ts'
import { addComponent, parametersOf, type Components } from './schemas.ts'
import { OVERVIEW, SECURITY_SCHEMES, TAGS } from './text.ts'
import { posted } from './webhook.ts'

export interface ApiFacts {
  readonly endpoints: readonly Endpoint[]
  readonly webhooks: readonly Webhook[]
  /** Address of the API with its prefix, or the prefix alone: then it is where the document is. */
  readonly serverUrl: string
  readonly version: string
}

/** The OpenAPI 3.1 document of exactly these endpoints, as YAML. */
export function describeApi(facts: ApiFacts): string {
  const components: Components = { schemas: new Map() }
  const responses = new Map<string, JsonObject>()
  addComponent(components, 'FailureDetails', FAILURE_DETAILS)
  const paths: Record<string, Record<string, JsonObject>> = {}
  for (const endpoint of facts.endpoints) {
    const operations = (paths[endpoint.path] ??= {})
    operations[endpoint.method.toLowerCase()] = operation(endpoint, components, responses)
  }
  const webhooks = facts.webhooks.map((each) => [each.name, { post: posted(each, components) }] as const)
  const tags = new Set(facts.endpoints.map(({ tag }) => tag))
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Waybill',
      version: facts.version,
      description: OVERVIEW,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: facts.serverUrl, description: 'The server that serves this document.' }],
    security: [{ bearerAuth: [] }, { apiToken: [] }],
    tags: [...tags].map((name) => ({ name, description: TAGS[name] ?? name })),
    paths,
    ...(webhooks.length === 0 ? {} : { webhooks: Object.fromEntries(webhooks) }),
    components: {
      securitySchemes: SECURITY_SCHEMES,
      headers: ANSWER_HEADERS,
      responses: sorted(responses),
      schemas: sorted(components.schemas),
    },
  }
  return stringify(document, { aliasDuplicateObjects: false, lineWidth: 0 })
}

const ANSWER_HEADERS: JsonObject = {
  'X-Request-Id': {
    description: 'Names the request; the log lines of the server carry it too.',
    required: true,
    schema: { type: 'string', format: 'uuid' },
    example: '5f0c7f5e-3f0b-4f1e-9d2c-6f6f5f0d9a11',
  },
  'Content-Disposition': {
    description: 'Names the file of a download (RFC 6266).',
    required: false,
    schema: { type: 'string' },
    example: 'attachment; filename="invoice.edi"',
  },
  Accept: {
    description: 'The Content-Type that the operation takes.',
    required: true,
    schema: { type: 'string' },
    example: 'application/json',
  },
  'Retry-After': {
    description: 'After how many seconds the request may be repeated.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 5,
  },
  'WWW-Authenticate': {
    description: 'The scheme of the credential (RFC 6750).',
    required: true,
    schema: { type: 'string' },
    example: 'Bearer',
  },
}

function sorted(named: ReadonlyMap<string, JsonObject>): JsonObject {
  return Object.fromEntries([...named].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function operation(
  endpoint: Endpoint,
  components: Components,
  responses: Map<string, JsonObject>,
): JsonObject {
  const { params, query, headers, body, description } = endpoint
  const parameters = [
    ...(params === undefined ? [] : parametersOf(params, 'path', components)),
    ...(query === undefined ? [] : parametersOf(query, 'query', components)),
    ...(headers === undefined ? [] : parametersOf(headers, 'header', components)),
    ...(body?.kind === 'upload' ? [REQUESTED_WITH] : []),
  ]
  return {
    operationId: endpoint.operationId,
    summary: endpoint.summary,
    ...(description === undefined ? {} : { description }),
    tags: [endpoint.tag],
    ...(endpoint.public ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(endpoint.method === 'GET' ? {} : { requestBody: requestBody(body, components) }),
    responses: { ...answersOf(endpoint.answer, components), ...failuresOf(endpoint, responses) },
  }
}

const REQUESTED_WITH: JsonObject = {
  name: 'X-Requested-With',
  in: 'header',
  required: true,
  description: 'Any value. A page of another origin cannot send it without asking first.',
  schema: { type: 'string', minLength: 1 },
}
