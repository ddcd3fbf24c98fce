import { connect } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { z } from 'zod'
import { endpoint } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'
import { ApiClient } from '../support/client.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

t.test('the rules for all requests', async (t) => {
  const { client, base } = await startApi(t)

  t.test(
    'a request that changes something needs Content-Type application/json, also without a body',
    async (t) => {
      for (const [method, path] of [
        ['POST', '/organizations'],
        ['PUT', '/organizations/1'],
        ['DELETE', '/organizations/1'],
        ['POST', '/services/file-writer/x/start'],
      ] as const) {
        for (const headers of [
          {},
          { 'content-type': 'text/plain' },
          { 'content-type': 'application/json; charset=latin1' },
        ]) {
          const answer = await client.ask(method, path, { raw: '{}', headers })
          t.equal(answer.status, 415, `${method} ${path}`)
          t.equal(answer.error?.code, 'UNSUPPORTED_MEDIA_TYPE')
          t.equal(answer.headers.get('accept'), 'application/json')
        }
      }
    },
  )

  t.test('application/json may name the charset utf-8', async (t) => {
    const headers = { 'content-type': 'application/json; charset=utf-8' }
    const answer = await client.ask('POST', '/organizations', { raw: '{"name":"charset"}', headers })
    t.equal(answer.status, 201)
  })

  t.test('an upload needs multipart/form-data and X-Requested-With, in this order', async (t) => {
    const wrongType = await client.ask('POST', '/certificates', { raw: '{}', headers: JSON_TYPE })
    t.equal(wrongType.status, 415)
    t.equal(wrongType.headers.get('accept'), 'multipart/form-data')
    const type = { 'content-type': 'multipart/form-data; boundary=x' }
    const missing = await client.ask('POST', '/certificates', { raw: '--x--', headers: type })
    t.equal(missing.status, 400)
    t.equal(missing.error?.code, 'MISSING_HEADER')
  })

  t.test('a GET needs no Content-Type', async (t) => {
    t.equal((await client.get('/organizations')).status, 200)
  })

  t.test('an unknown path is 404 NOT_FOUND in the envelope', async (t) => {
    for (const path of ['/nothing', '/organizations/1/more', '/organizations/', '/certificates/1/key']) {
      const answer = await client.get(path)
      t.equal(answer.status, 404, path)
      t.equal(answer.error?.code, 'NOT_FOUND')
    }
    const outside = await ApiClient.bare(new URL(base).origin).get('/')
    t.equal(outside.error?.code, 'NOT_FOUND')
  })

  t.test(
    'a known path with another method is 405 METHOD_NOT_ALLOWED and Allow names those it takes',
    async (t) => {
      const one = await client.ask('PATCH', '/organizations/1', { raw: '{}', headers: JSON_TYPE })
      t.equal(one.status, 405)
      t.equal(one.error?.code, 'METHOD_NOT_ALLOWED')
      t.equal(one.headers.get('allow'), 'DELETE, GET, HEAD, PUT')
      const list = await client.ask('DELETE', '/organizations')
      t.equal(list.status, 405, 'before the Content-Type is looked at')
      t.equal(list.headers.get('allow'), 'GET, HEAD, POST')
      t.equal((await client.ask('OPTIONS', '/organizations')).status, 405)
    },
  )

  t.test(
    'a body that is not a JSON object is INVALID_INPUT with the reason under details.body',
    async (t) => {
      for (const raw of ['', '{', '[]', '"text"', '1', 'null', '{"name":"a"}x', '\u{feff}']) {
        const answer = await client.ask('POST', '/organizations', { raw, headers: JSON_TYPE })
        t.equal(answer.status, 400, raw)
        t.equal(answer.error?.code, 'INVALID_INPUT')
        t.equal(answer.error?.message, 'Invalid request body')
        t.type(answer.error?.details?.['body'], 'string')
      }
      const notUtf8 = await client.ask('POST', '/organizations', {
        raw: new Uint8Array([0x7b, 0xff, 0x7d]),
        headers: JSON_TYPE,
      })
      t.equal(notUtf8.error?.message, 'Invalid request body')
    },
  )

  t.test('a body above 1 MiB is 413 PAYLOAD_TOO_LARGE', async (t) => {
    const name = 'a'.repeat(1024 * 1024)
    const answer = await client.post('/organizations', { name })
    t.equal(answer.status, 413)
    t.equal(answer.error?.code, 'PAYLOAD_TOO_LARGE')
    const below = await client.post('/organizations', { name: name.slice(20) })
    t.equal(below.status, 400, 'just below it, the name is judged')
  })

  t.test('an unknown property is refused by its name', async (t) => {
    const answer = await client.post('/organizations', { name: 'acme', dispay_name: 'Acme', __proto__: {} })
    t.equal(answer.error?.message, 'Validation failed')
    t.match(answer.error?.details, { dispay_name: 'unknown property' })
    const proto = await client.ask('POST', '/organizations', {
      raw: '{"name":"a","__proto__":{"name":"b"}}',
      headers: JSON_TYPE,
    })
    t.equal(proto.status, 400)
  })

  t.test('text that cannot be stored is refused, not a failure of the server', async (t) => {
    const nul = await client.post('/organizations', { name: 'acme', display_name: 'a\0b' })
    t.match(nul.error?.details, { display_name: /NUL/ })
    const raw = String.raw`{"name":"acme","display_name":"\ud800"}`
    const surrogate = await client.ask('POST', '/organizations', { raw, headers: JSON_TYPE })
    t.match(surrogate.error?.details, { display_name: /well-formed/ })
    t.match((await client.get('/organizations?q=a%00b')).error?.details, { q: /NUL/ })
    t.equal((await client.get('/plugins/configs/file-writer/a%00b')).status, 400)
  })

  t.test('a path that cannot be decoded is refused in the envelope', async (t) => {
    const answer = await client.get('/organizations/%ZZ')
    t.equal(answer.status, 400)
    t.equal(answer.error?.code, 'INVALID_INPUT')
  })

  t.test('every answer carries X-Request-Id and security headers', async (t) => {
    const ids = new Set<string | null>()
    for (const path of ['/organizations', '/nothing', '/health', '/organizations/x', '/organizations/%ZZ']) {
      const { headers } = await client.get(path)
      t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/, path)
      ids.add(headers.get('x-request-id'))
    }
    t.equal(ids.size, 5)
    const { headers } = await client.get('/organizations')
    t.equal(headers.get('x-content-type-options'), 'nosniff')
    t.match(headers.get('content-security-policy'), "default-src 'none'")
  })

  t.test('what is no HTTP at all is answered in the envelope and the connection closed', async (t) => {
    const { hostname, port } = new URL(base)
    const socket = connect(Number(port), hostname)
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.write('BREW coffee\r\n\r\n')
    await once(socket, 'end')
    const text = Buffer.concat(chunks).toString()
    t.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/)
    t.match(text, /"code":"INVALID_INPUT"/)
  })
})

t.test('a failure of the server tells nothing and logs the cause once', async (t) => {
  const lines: Record<string, unknown>[] = []
  const { pino } = await import('pino')
  const log = pino(
    { level: 'info' },
    { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  )
  const broken = endpoint({
    method: 'GET',
    path: '/broken',
    operationId: 'break',
    summary: 'Breaks',
    tag: 'Server',
    answer: { kind: 'data', status: 200, schema: z.object({}), description: 'Never' },
    handle: () => {
      throw new Error('the password is hunter2')
    },
  })
  const { client } = await startApi(t, { endpoints: [broken], log })
  const answer = await client.get('/broken')
  t.equal(answer.status, 500)
  t.equal(answer.error?.code, 'INTERNAL_ERROR')
  t.notMatch(answer.text, /hunter2/)
  const causes = lines.filter((line) => JSON.stringify(line).includes('hunter2'))
  t.equal(causes.length, 1)
  t.match(causes[0], { requestId: answer.headers.get('x-request-id'), caller: 'developer' })
})

t.test('a page of another origin is let in only when ALLOWED_ORIGINS names it', async (t) => {
  const preflight = (origin: string) => ({ headers: { origin, 'access-control-request-method': 'PUT' } })
  const closed = await startApi(t)
  const refused = await closed.client.ask('OPTIONS', '/organizations/1', preflight('https://a.example'))
  t.equal(refused.headers.get('access-control-allow-origin'), null)
  const open = await startApi(t, { allowedOrigins: ['https://a.example'] })
  const allowed = await open.client.ask('OPTIONS', '/organizations/1', preflight('https://a.example'))
  t.equal(allowed.headers.get('access-control-allow-origin'), 'https://a.example')
  const other = await open.client.ask('OPTIONS', '/organizations/1', preflight('https://b.example'))
  t.equal(other.headers.get('access-control-allow-origin'), null)
})
