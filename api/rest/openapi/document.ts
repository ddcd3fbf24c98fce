import { stringify } from 'yaml'
import type { BodyDescription, Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import type { RecordRules } from '../../../runtime/endpoint/record-rules.ts'
import { failuresOf, FAILURE_DETAILS } from './failures.ts'
import { addComponent, bodyOf, parametersOf, schemaOf, type Components, type JsonObject } from './schemas.ts'
import { OVERVIEW, SECURITY_SCHEMES, TAGS } from './text.ts'

export interface ApiFacts {
  readonly endpoints: readonly Endpoint[]
  /** Address of the API with its prefix. */
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
  const tags = new Set(facts.endpoints.map(({ tag }) => tag))
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Waybill',
      version: facts.version,
      description: OVERVIEW,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: facts.serverUrl }],
    security: [{ bearerAuth: [] }, { apiToken: [] }],
    tags: [...tags].map((name) => ({ name, description: TAGS[name] ?? name })),
    paths,
    components: {
      securitySchemes: SECURITY_SCHEMES,
      headers: { 'X-Request-Id': REQUEST_ID_HEADER },
      responses: sorted(responses),
      schemas: sorted(components.schemas),
    },
  }
  return stringify(document, { aliasDuplicateObjects: false, lineWidth: 0 })
}

const REQUEST_ID_HEADER: JsonObject = {
  description: 'Names the request; the log lines of the server carry it too.',
  schema: { type: 'string', format: 'uuid' },
}

function sorted(named: ReadonlyMap<string, JsonObject>): JsonObject {
  return Object.fromEntries([...named].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function operation(
  endpoint: Endpoint,
  components: Components,
  responses: Map<string, JsonObject>,
): JsonObject {
  const { params, query, body, description } = endpoint
  const parameters = [
    ...(params === undefined ? [] : parametersOf(params, 'path', components)),
    ...(query === undefined ? [] : parametersOf(query, 'query', components)),
    ...(body?.kind === 'upload' ? [REQUESTED_WITH] : []),
  ]
  return {
    operationId: endpoint.operationId,
    summary: endpoint.summary,
    ...(description === undefined ? {} : { description }),
    tags: [endpoint.tag],
    ...(endpoint.public ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: requestBody(body, components) }),
    responses: { ...answers(endpoint, components), ...failuresOf(endpoint, responses) },
  }
}

const REQUESTED_WITH: JsonObject = {
  name: 'X-Requested-With',
  in: 'header',
  required: true,
  description: 'Any value. A page of another origin cannot send it without asking first.',
  schema: { type: 'string', minLength: 1 },
}

function requestBody(body: BodyDescription, components: Components): JsonObject {
  if (body.kind === 'upload') {
    return { required: true, content: { 'multipart/form-data': { schema: uploadSchema(body) } } }
  }
  const schema =
    'choose' in body.rules
      ? chosenBody(body.rules, body.kind, components)
      : bodyOf(body.rules, body.kind, components)
  return { required: true, content: { 'application/json': { schema } } }
}

function chosenBody(
  rules: { readonly name: string; readonly all: readonly RecordRules[] },
  kind: 'create' | 'update',
  components: Components,
): JsonObject {
  const name = kind === 'create' ? `${rules.name}Creation` : `${rules.name}Change`
  addComponent(components, name, { anyOf: rules.all.map((each) => bodyOf(each, kind, components)) })
  return { $ref: `#/components/schemas/${name}` }
}

function uploadSchema(body: BodyDescription & { kind: 'upload' }): JsonObject {
  const files = Object.entries(body.files).map(([name, description]) => [
    name,
    { type: 'string', contentMediaType: 'application/octet-stream', description },
  ])
  const fields = Object.entries(body.fields).map(([name, description]) => [
    name,
    { type: 'string', description },
  ])
  return {
    type: 'object',
    properties: Object.fromEntries([...files, ...fields]),
    required: [...body.required],
    additionalProperties: false,
  }
}

function answers(endpoint: Endpoint, components: Components): JsonObject {
  const { answer } = endpoint
  const headers = { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } }
  if (answer.kind === 'empty') return { 204: { description: answer.description, headers } }
  if (answer.kind === 'file') {
    const content = { [answer.contentType]: { schema: { type: 'string' } } }
    return { 200: { description: answer.description, headers, content } }
  }
  const schema = schemaOf(answer.schema, 'output', components)
  if (answer.kind === 'bare') {
    const content = { 'application/json': { schema } }
    return Object.fromEntries(
      Object.entries(answer.descriptions).map(([status, description]) => [
        status,
        { description, headers, content },
      ]),
    )
  }
  const envelope = {
    type: 'object',
    properties: { data: schema, error: { type: 'null' } },
    required: ['data', 'error'],
    additionalProperties: false,
  }
  const content = { 'application/json': { schema: envelope } }
  return { [answer.status]: { description: answer.description, headers, content } }
}
