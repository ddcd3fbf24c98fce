import type { ZodType } from 'zod'
import type { AnswerDescription, BodyDescription } from '../../../runtime/endpoint/endpoint.ts'
import type { RecordRules } from '../../../runtime/endpoint/record-rules.ts'
import { exampleFor, examplesOf } from './examples.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { addComponent, bodyOf, schemaOf, type Components } from './schemas.ts'

/** Request bodies and the answers of success. */

export function requestBody(body: BodyDescription | undefined, components: Components): JsonObject {
  if (body === undefined) return NOTHING
  if (body.kind === 'upload') {
    const schema = uploadSchema(body)
    return { required: true, content: { 'multipart/form-data': { schema } } }
  }
  if (body.kind === 'action') return actionBody(body, components)
  const schema =
    'choose' in body.rules
      ? chosenBody(body.rules, body.kind, components)
      : bodyOf(body.rules, body.kind, components)
  return {
    description: 'A JSON object. An unknown property is refused by its name.',
    required: true,
    content: { 'application/json': { schema, ...examplesOf(schema, components) } },
  }
}

/** Of an operation that takes no body: a client that is told so sets the Content-Type, which is needed all the same. */
const NOTHING: JsonObject = {
  description: 'Nothing, or an object without properties. The Content-Type is needed with either.',
  required: false,
  content: {
    'application/json': {
      schema: {
        type: 'object',
        description: 'An object without properties.',
        maxProperties: 0,
        additionalProperties: false,
      },
      example: {},
    },
  },
}

function actionBody(body: BodyDescription & { kind: 'action' }, components: Components): JsonObject {
  addComponent(components, body.name, schemaOf(body.schema, 'input', components))
  const schema = { $ref: `#/components/schemas/${body.name}` }
  return {
    description: 'A JSON object. An unknown property is refused by its name.',
    required: body.optional !== true,
    content: { 'application/json': { schema, ...examplesOf(schema, components) } },
  }
}

function chosenBody(
  rules: { readonly name: string; readonly all: readonly RecordRules[] },
  kind: 'create' | 'update',
  components: Components,
): JsonObject {
  const name = kind === 'create' ? `${rules.name}Creation` : `${rules.name}Change`
  const description = 'The properties are those of the type that the request names.'
  const anyOf = rules.all.map((each) => bodyOf(each, kind, components))
  addComponent(components, name, { description, anyOf })
  return { $ref: `#/components/schemas/${name}` }
}

function uploadSchema(body: BodyDescription & { kind: 'upload' }): JsonObject {
  const bytes = { type: 'string', contentMediaType: 'application/octet-stream' }
  const files = Object.entries(body.files).map(([name, description]) => {
    const maxItems = body.several?.[name]
    if (maxItems === undefined) return [name, { ...bytes, description }]
    // A list is one part of this name for each of its items (OpenAPI 3.1 §4.8.14.4).
    const items = { ...bytes, description: 'One file.' }
    return [name, { type: 'array', items, minItems: 1, maxItems, description }]
  })
  const fields = Object.entries(body.fields).map(([name, description]) => [
    name,
    { type: 'string', description },
  ])
  return {
    type: 'object',
    description: `The parts of the form. All together have at most ${body.maxBytes / 1024 / 1024} MiB.`,
    properties: Object.fromEntries([...files, ...fields]),
    required: [...body.required],
    additionalProperties: false,
  }
}

/** Headers that every answer carries. */
const HEADERS: JsonObject = { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } }

/** What a download may carry besides. */
const FILE_HEADERS: JsonObject = {
  ...HEADERS,
  'Content-Disposition': { $ref: '#/components/headers/Content-Disposition' },
}

export function answersOf(answer: AnswerDescription, components: Components): JsonObject {
  const { description } = { description: '', ...answer }
  if (answer.kind === 'empty') return { 204: { description, headers: HEADERS } }
  if (answer.kind === 'file') {
    const schema = { type: 'string', description: 'The bytes as they are.' }
    const content = { [answer.contentType]: { schema } }
    return { 200: { description, headers: FILE_HEADERS, content } }
  }
  if (answer.kind === 'events') return { 200: eventsAnswer(answer, components) }
  if (answer.kind === 'choice') {
    const successes = Object.entries(answer.byStatus)
    return Object.fromEntries(successes.map(([status, each]) => [status, success(each, components)]))
  }
  if (answer.kind === 'data') return { [answer.status]: success(answer, components) }
  const schema = schemaOf(answer.schema, 'output', components)
  const content = { 'application/json': { schema, example: exampleFor(schema, components) } }
  return Object.fromEntries(
    Object.entries(answer.descriptions).map(([status, text]) => [
      status,
      { description: text, headers: HEADERS, content },
    ]),
  )
}

/** OpenAPI 3.1 has no words for the events of a stream: their data is described as an extension, and in the example. */
function eventsAnswer(answer: AnswerDescription & { kind: 'events' }, components: Components): JsonObject {
  const events = Object.entries(answer.events).map(([name, { schema, description }]) => {
    const data = schemaOf(schema, 'output', components)
    return [name, { description, data, example: exampleFor(data, components) ?? {} }] as const
  })
  const schema = {
    type: 'string',
    description: 'Server-Sent Events in UTF-8. Their data is one JSON object.',
    'x-events': Object.fromEntries(
      events.map(([name, { description, data }]) => [name, { description, data }]),
    ),
  }
  const example = events
    .map(([name, { example: data }]) => `${idOf(data)}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
    .join('')
  return {
    description: answer.description,
    headers: HEADERS,
    content: { 'text/event-stream': { schema, example } },
  }
}

function idOf(data: Json): string {
  return isObject(data) && typeof data['id'] === 'number' ? `id: ${data['id']}\n` : ''
}

function success(
  answer: { readonly schema: ZodType; readonly description: string },
  components: Components,
): JsonObject {
  const schema = schemaOf(answer.schema, 'output', components)
  const content = {
    'application/json': { schema: envelope(schema), ...examplesOf(schema, components, enveloped) },
  }
  return { description: answer.description, headers: HEADERS, content }
}

function enveloped(data: Json): Json {
  return { data, error: null }
}

function envelope(schema: JsonObject): JsonObject {
  return {
    type: 'object',
    description: 'The envelope of a success.',
    properties: {
      data: schema['description'] === undefined ? { description: 'The result.', ...schema } : schema,
      error: { type: 'null', description: 'Null: the request succeeded.' },
    },
    required: ['data', 'error'],
    additionalProperties: false,
  }
}
