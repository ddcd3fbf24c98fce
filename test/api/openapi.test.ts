import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { startApi } from '../support/api.ts'

interface Document {
  readonly openapi: string
  readonly paths: Record<
    string,
    Record<string, { operationId: string; security?: unknown[]; responses: Record<string, unknown> }>
  >
  readonly components: { schemas: Record<string, { anyOf?: unknown[] }> }
}

t.test('GET /openapi.yaml', async (t) => {
  const { client } = await startApi(t)
  const answer = await client.get('/openapi.yaml')
  const document = parse(answer.text) as Document

  t.test('is the OpenAPI 3.1 document as application/yaml', async (t) => {
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'application/yaml')
    t.equal(document.openapi, '3.1.0')
  })

  t.test('describes the endpoints and plugin types of the running server', async (t) => {
    for (const path of [
      '/organizations',
      '/partners/{id}',
      '/routes',
      '/certificates/expiring',
      '/as2/remote-profiles/{id}',
      '/plugins/configs/{type}/{name}',
      '/services/{type}/{name}/{action}',
      '/messages/{id}/payload',
      '/health',
      '/openapi.yaml',
    ]) {
      t.ok(path in document.paths, path)
    }
    t.equal(document.components.schemas['PluginConfigurationCreation']?.anyOf?.length, 5)
    t.same(document.paths['/health']?.['get']?.security, [])
  })

  t.test('names every operation once', async (t) => {
    const ids = Object.values(document.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    )
    t.equal(new Set(ids).size, ids.length)
  })

  t.test('passes the linter without errors', async (t) => {
    const file = join(t.testdir(), 'openapi.yaml')
    writeFileSync(file, answer.text)
    const cli = new URL('../../node_modules/@redocly/cli/bin/cli.js', import.meta.url).pathname
    const config = new URL('../../redocly.yaml', import.meta.url).pathname
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [cli, 'lint', '--config', config, file],
      {
        env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
      },
    )
    t.notMatch(stdout + stderr, /Warning was generated|Error was generated/)
  })
})
