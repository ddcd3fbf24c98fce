import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { parse } from 'yaml'
import { ERRORS } from '../../runtime/errors.ts'
import { startApi } from '../support/api.ts'

type Node = Readonly<Record<string, unknown>>

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly security?: readonly unknown[]
  readonly parameters?: readonly { readonly name: string; readonly description?: string }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, Node>> }
  readonly responses: Readonly<Record<string, Node>>
}

interface Document {
  readonly openapi: string
  readonly info: Node & { readonly license: Node; readonly description: string }
  readonly servers: readonly { readonly url: string; readonly description: string }[]
  readonly security: readonly Node[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Node & { anyOf?: unknown[] }>>
    readonly responses: Readonly<Record<string, Node>>
    readonly headers: Readonly<Record<string, Node>>
    readonly securitySchemes: Readonly<Record<string, Node>>
  }
}

/** Every object and list within a value, with the path to it. */
function* nodesOf(value: unknown, path: string): Generator<{ readonly path: string; readonly node: Node }> {
  if (typeof value !== 'object' || value === null) return
  yield { path, node: value as Node }
  for (const [key, inner] of Object.entries(value)) {
    // An example is data: what is called `properties` there is no schema.
    if (key !== 'example' && key !== 'examples') yield* nodesOf(inner, `${path}/${key}`)
  }
}

t.test('GET /openapi.yaml', async (t) => {
  const { client, records } = await startApi(t, { publicUrl: 'https://waybill.acme.test' })
  const answer = await client.get('/openapi.yaml')
  const document = parse(answer.text) as Document
  const { components } = document
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  )

  t.test('is the OpenAPI 3.1 document as application/yaml', async (t) => {
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'application/yaml')
    t.match(document.openapi, /^3\.1\.\d$/)
  })

  t.test('says what the product is, under which licence and where it is served', async (t) => {
    t.match(document.info, { title: 'Waybill', version: '0.0.0', license: { identifier: 'Apache-2.0' } })
    t.ok(document.info.description.length > 200)
    t.match(document.servers, [{ url: 'https://waybill.acme.test/api/v1', description: /./ }])
  })

  t.test('names both kinds of credential, and GET /health as the one operation without', async (t) => {
    t.same(Object.keys(components.securitySchemes).toSorted(), ['apiToken', 'bearerAuth'])
    t.same(document.security, [{ bearerAuth: [] }, { apiToken: [] }])
    t.same(
      operations.filter(({ operation }) => operation.security !== undefined).map(({ name }) => name),
      ['GET /health'],
    )
    t.same(document.paths['/health']?.['get']?.security, [])
  })

  t.test('describes the plugin types of the running server', async (t) => {
    const types = records.pluginTypes.all.map(({ type }) => type)
    t.ok(types.length > 4)
    for (const kind of ['PluginConfiguration', 'PluginConfigurationCreation', 'PluginConfigurationChange']) {
      t.equal(components.schemas[kind]?.anyOf?.length, types.length, kind)
    }
    const [parameter] = document.paths['/plugins/configs']?.['post']?.parameters ?? []
    for (const type of types) t.match(parameter?.description, type)
  })

  t.test('names every operation once, sums it up and puts it under a tag with a description', async (t) => {
    const ids = operations.map(({ operation }) => operation.operationId)
    t.equal(new Set(ids).size, ids.length)
    const tags = new Map(document.tags.map(({ name, description }) => [name, description]))
    const used = new Set<string>()
    for (const { name, operation } of operations) {
      t.ok(operation.summary, name)
      t.ok(operation.description, `${name} says more than its summary`)
      for (const tag of operation.tags) {
        used.add(tag)
        const description = tags.get(tag) ?? ''
        t.ok(description !== '' && description !== tag, `${name}: the tag ${tag}`)
      }
    }
    t.same([...tags.keys()].toSorted(), [...used].toSorted())
  })

  t.test('describes every schema, every property and every parameter in words', async (t) => {
    const silent: string[] = []
    const says = (node: unknown): boolean => {
      const { $ref, description } = node as Node
      if (typeof description === 'string') return description.trim() !== ''
      return typeof $ref === 'string' && says(components.schemas[$ref.split('/').at(-1) ?? ''] ?? {})
    }
    for (const [name, schema] of Object.entries(components.schemas)) if (!says(schema)) silent.push(name)
    for (const { path, node } of nodesOf(document, '#')) {
      const { properties } = node
      if (path.endsWith('/properties') || typeof properties !== 'object' || properties === null) continue
      for (const [name, property] of Object.entries(properties)) {
        if (!says(property)) silent.push(`${path}/${name}`)
      }
    }
    for (const { name, operation } of operations) {
      for (const parameter of operation.parameters ?? []) {
        if (!says(parameter)) silent.push(`${name} ${parameter.name}`)
      }
      for (const [status, described] of Object.entries(operation.responses)) {
        if (!('$ref' in described) && !says(described)) silent.push(`${name} ${status}`)
      }
    }
    t.same(silent, [])
  })

  t.test('gives every operation examples, and each is as its schema says', async (t) => {
    const ajv = new Ajv2020({
      strict: false,
      formats: { 'date-time': true, date: true, uuid: true, uri: true },
    })
    ajv.addSchema(document, 'openapi')
    let checked = 0
    const check = (place: string, media: Node): void => {
      const { example, examples } = media
      const values =
        example === undefined
          ? Object.values((examples ?? {}) as Record<string, { value: unknown }>).map(({ value }) => value)
          : [example]
      t.ok(values.length > 0, `${place} has an example`)
      for (const value of values) {
        checked += 1
        const valid = ajv.validate({ $ref: `openapi#${place}/schema` }, value)
        t.ok(valid, `${place}: ${ajv.errorsText()} ${JSON.stringify(value)}`)
      }
    }
    const media = (node: Node, place: string): void => {
      const json = (node['content'] as Record<string, Node> | undefined)?.['application/json']
      if (json !== undefined) check(`${place}/content/application~1json`, json)
    }
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { requestBody, responses }] of Object.entries(methods)) {
        const place = `/paths/${encodeURIComponent(path.replaceAll('/', '~1'))}/${method}`
        if (requestBody !== undefined) media(requestBody, `${place}/requestBody`)
        for (const [status, described] of Object.entries(responses)) {
          media(described, `${place}/responses/${status}`)
        }
      }
    }
    for (const [name, response] of Object.entries(components.responses)) {
      media(response, `/components/responses/${name}`)
    }
    t.ok(checked > 100, `${checked} examples`)
  })

  t.test('lists the errors of every operation, with codes of the catalogue under their status', async (t) => {
    for (const { name, operation } of operations) {
      const statuses = Object.keys(operation.responses).map(Number)
      const codes = statuses.flatMap((status) => codesOf(document, operation, status))
      for (const [code, status] of codes) {
        t.equal(ERRORS[code as keyof typeof ERRORS]?.status, status, `${name} ${code}`)
      }
      const given = new Set(codes.map(([code]) => code))
      const [method = '', path = ''] = name.split(' ')
      t.ok(given.has('INVALID_INPUT') && given.has('INTERNAL_ERROR'), name)
      t.equal(given.has('MISSING_AUTH_HEADER') && given.has('INVALID_TOKEN'), path !== '/health', name)
      t.equal(given.has('UNSUPPORTED_MEDIA_TYPE'), method !== 'GET', name)
      if (path.includes('{')) t.ok(given.has('NOT_FOUND'), name)
      t.equal(given.has('PAYLOAD_TOO_LARGE'), method !== 'GET', name)
      t.equal(
        given.has('MISSING_HEADER'),
        'multipart/form-data' in (operation.requestBody?.content ?? {}),
        name,
      )
    }
  })

  t.test('passes the strict rules of a linter without errors and warnings', async (t) => {
    const file = join(t.testdir(), 'openapi.yaml')
    writeFileSync(file, answer.text)
    const cli = new URL('../../node_modules/@redocly/cli/bin/cli.js', import.meta.url).pathname
    const config = new URL('../../redocly.yaml', import.meta.url).pathname
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    const linted = await promisify(execFile)(
      process.execPath,
      [cli, 'lint', '--format', 'json', '--config', config, file],
      { env, maxBuffer: 64 * 1024 * 1024 },
    ).catch((failed: { stdout: string }) => failed)
    const report = JSON.parse(linted.stdout) as { totals: Node; problems: readonly Node[] }
    const told = report.problems.map(({ ruleId, message, location }) => [ruleId, message, location])
    t.same(told, [])
    t.match(report.totals, { errors: 0, warnings: 0 })
  })
})

function codesOf(document: Document, operation: Operation, status: number): readonly [string, number][] {
  const described = operation.responses[String(status)] as { $ref?: string } | undefined
  if (described?.$ref === undefined) return []
  const response = document.components.responses[described.$ref.split('/').at(-1) ?? '']
  const found = [...nodesOf(response, '')].flatMap(({ path, node }) =>
    path.endsWith('/error/properties/code') ? (node['enum'] as string[]) : [],
  )
  return found.map((code) => [code, status])
}
