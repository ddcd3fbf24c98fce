import t from 'tap'
import { startApi } from '../../support/api.ts'
import { ApiClient } from '../../support/client.ts'

/** Specification 4.1, and the order of the checks. */

const JSON_TYPE = { 'content-type': 'application/json' }
const FORM_TYPE = { 'content-type': 'multipart/form-data; boundary=x' }

t.test('4.1 Rules for all requests', async (t) => {
  const { client, base } = await startApi(t)
  const release = await startApi(t, { build: 'release' })

  t.test('4.1 Authorization header: on every request except GET /health', async (t) => {
    t.equal((await release.client.get('/health')).status, 200)
    const operations = client.operations()
    t.ok(operations.length > 30)
    for (const { method, path } of operations) {
      if (path === '/health') continue
      const answer = await release.client.ask(method, path.replaceAll(/\{\w+\}/g, '1'))
      t.match(answer, { status: 401, error: { code: 'MISSING_AUTH_HEADER' } }, `${method} ${path}`)
      t.equal(answer.headers.get('www-authenticate'), 'Bearer')
    }
  })

  t.test('4.1 Content-Type on POST, PUT, DELETE: application/json, also when there is no body', async (t) => {
    const taken = ['application/json', 'application/json; charset=utf-8', 'Application/JSON;charset="UTF-8"']
    for (const type of taken) {
      const headers = { 'content-type': type }
      t.equal((await client.ask('DELETE', '/organizations/999999', { headers })).status, 404, type)
      t.equal((await client.ask('POST', '/services/file-writer/x/start', { headers })).status, 404, type)
      const raw = `{"name":"by-${taken.indexOf(type)}"}`
      t.equal((await client.ask('POST', '/organizations', { raw, headers })).status, 201, type)
    }
  })

  t.test('4.1 Content-Type for uploads: multipart/form-data', async (t) => {
    const headers = { 'x-requested-with': 'test' }
    for (const path of uploads(client)) {
      const answer = await client.ask('POST', path, { raw: '{}', headers: { ...headers, ...JSON_TYPE } })
      t.match(answer, { status: 415, error: { code: 'UNSUPPORTED_MEDIA_TYPE' } }, path)
      t.equal(answer.headers.get('accept'), 'multipart/form-data', path)
      const form = await client.ask('POST', path, { parts: {} })
      t.not(form.status, 415, path)
    }
  })

  t.test('4.1 X-Requested-With: any value on an upload; missing is 400 MISSING_HEADER', async (t) => {
    const paths = uploads(client)
    t.ok(paths.includes('/certificates'))
    for (const path of paths) {
      const missing = await client.ask('POST', path, { raw: '--x--\r\n', headers: FORM_TYPE })
      t.match(missing, { status: 400, error: { code: 'MISSING_HEADER' } }, path)
      const headers = { ...FORM_TYPE, 'x-requested-with': 'whatever' }
      const given = await client.ask('POST', path, { raw: '--x--\r\n', headers })
      t.match(given, { status: 400, error: { code: 'INVALID_INPUT' } }, path)
    }
  })

  t.test('4.1 GET: needs no Content-Type, and any is ignored', async (t) => {
    t.equal((await client.get('/organizations')).status, 200)
    t.equal((await client.get('/organizations', { headers: { 'content-type': 'text/html' } })).status, 200)
  })

  t.test('4.1 Wrong or missing Content-Type: 415 with Accept, before anything happens', async (t) => {
    const wrong = [
      {},
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/json; charset=latin1' },
      { 'content-type': 'application/json; charset="utf-8' },
      { 'content-type': 'application/json; version=1' },
      { 'content-type': 'application/json, text/plain' },
      { 'content-type': 'application/jsonp' },
      { 'content-type': 'application/merge-patch+json' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': ';' },
      FORM_TYPE,
    ]
    const { total } = (await client.get('/organizations')).data
    const operations = client.operations()
    for (const { method, path, upload } of operations) {
      if (method === 'GET') continue
      for (const headers of upload ? wrong.slice(0, -1) : wrong) {
        // A body of bytes: with a text, fetch would set a Content-Type of its own.
        const raw = new TextEncoder().encode('{"name":"not-made"}')
        const answer = await client.ask(method, path.replaceAll(/\{\w+\}/g, '1'), { raw, headers })
        t.match(answer, { status: 415, error: { code: 'UNSUPPORTED_MEDIA_TYPE' } }, `${method} ${path}`)
        t.equal(answer.headers.get('accept'), upload ? 'multipart/form-data' : 'application/json')
        const empty = await client.ask(method, path.replaceAll(/\{\w+\}/g, '1'), { headers })
        t.equal(empty.status, 415, `${method} ${path} without a body`)
      }
    }
    t.equal((await client.get('/organizations')).data['total'], total)
  })

  t.test('4.1 Format: JSON in and out except upload, downloads and the document', async (t) => {
    for (const path of ['/organizations', '/nothing', '/organizations/x', '/health']) {
      const { headers } = await client.get(path)
      t.match(headers.get('content-type'), /^application\/json; charset=utf-8$/, path)
    }
    t.equal((await client.get('/openapi.yaml')).headers.get('content-type'), 'application/yaml')
  })

  t.test(
    'the checks come in this order: credential, path and method, Content-Type, X-Requested-With, size, body, record',
    async (t) => {
      const large = 'x'.repeat(1024 * 1024 + 1)
      const code = async (method: string, path: string, asking: Parameters<typeof client.ask>[2]) =>
        (await client.ask(method, path, asking)).error?.code
      const stranger = await release.client.ask('PATCH', '/nothing', { raw: large, headers: {} })
      t.equal(stranger.error?.code, 'MISSING_AUTH_HEADER')
      for (const headers of [{}, JSON_TYPE, { 'content-type': 'text/plain' }]) {
        for (const raw of ['{', large]) {
          t.equal(await code('POST', '/nothing', { raw, headers }), 'NOT_FOUND')
          t.equal(await code('DELETE', '/organizations', { raw, headers }), 'METHOD_NOT_ALLOWED')
          t.equal(await code('PATCH', '/organizations/1', { raw, headers }), 'METHOD_NOT_ALLOWED')
        }
      }
      t.equal(
        await code('PUT', '/organizations/999999', { raw: large, headers: { 'content-type': 'a/b' } }),
        'UNSUPPORTED_MEDIA_TYPE',
      )
      t.equal(
        await code('POST', '/certificates', { raw: large, headers: JSON_TYPE }),
        'UNSUPPORTED_MEDIA_TYPE',
      )
      t.equal(await code('POST', '/certificates', { raw: large, headers: FORM_TYPE }), 'MISSING_HEADER')
      t.equal(
        await code('PUT', '/organizations/999999', { raw: large, headers: JSON_TYPE }),
        'PAYLOAD_TOO_LARGE',
      )
      t.equal(await code('PUT', '/organizations/999999', { raw: '{', headers: JSON_TYPE }), 'INVALID_INPUT')
      t.equal(await code('PUT', '/organizations/999999', { raw: '{}', headers: JSON_TYPE }), 'NOT_FOUND')
    },
  )

  t.test('an unknown path is 404 NOT_FOUND in the envelope, inside and outside of /api/v1', async (t) => {
    const unknown = [
      '/nothing',
      '/organizations/1/more',
      '/organizations/',
      '/certificates/1/key',
      '',
      '/',
      '//organizations',
    ]
    for (const path of [
      ...unknown,
      '/organizations//',
      '/Organizations',
      '/organizations;a=b',
      '/../v1/organizations/x/y',
    ]) {
      const answer = await client.get(path)
      t.match(answer, { status: 404, error: { code: 'NOT_FOUND' } }, path)
    }
    const outside = ApiClient.bare(new URL(base).origin)
    for (const path of [
      '/',
      '/api',
      '/api/v2/organizations',
      '/api/v1x',
      '/favicon.ico',
      '/.env',
      '/docs/../x',
    ]) {
      const answer = await outside.get(path)
      t.match(answer, { status: 404, error: { code: 'NOT_FOUND' } }, path)
    }
  })

  t.test(
    'a known path with another method is 405 METHOD_NOT_ALLOWED and Allow names those it takes',
    async (t) => {
      for (const method of ['PATCH', 'OPTIONS', 'QUERY', 'PROPFIND', 'MKCOL']) {
        const one = await client.ask(method, '/organizations/1', { headers: JSON_TYPE })
        t.match(one, { status: 405, error: { code: 'METHOD_NOT_ALLOWED' } }, method)
        t.equal(one.headers.get('allow'), 'DELETE, GET, HEAD, PUT')
      }
      const list = await client.ask('DELETE', '/organizations')
      t.equal(list.headers.get('allow'), 'GET, HEAD, POST')
      const encoded = await client.ask('DELETE', '/%6Frganizations')
      t.match(encoded, { status: 405 }, 'a path is the same in percent encoding')
      t.equal((await client.get('/%6Frganizations')).status, 200)
    },
  )

  t.test('HEAD is GET without its body; no header and no parameter changes the method', async (t) => {
    const { id } = await client.create('/organizations', { name: 'head' })
    const get = await client.get(`/organizations/${String(id)}`)
    const head = await client.ask('HEAD', `/organizations/${String(id)}`)
    t.equal(head.status, 200)
    t.equal(head.text, '')
    t.equal(head.headers.get('content-length'), get.headers.get('content-length'))
    t.equal((await client.ask('HEAD', '/organizations/999999')).status, 404)
    for (const name of ['x-http-method-override', 'x-http-method', 'x-method-override']) {
      const headers = { ...JSON_TYPE, [name]: 'DELETE' }
      await client.ask('POST', `/organizations/${String(id)}?_method=DELETE`, { headers, raw: '{}' })
      await client.get(`/organizations/${String(id)}?_method=DELETE`, { headers })
    }
    t.equal((await client.get(`/organizations/${String(id)}`)).status, 200, 'it is still there')
  })
})

function uploads(client: ApiClient): readonly string[] {
  return client
    .operations()
    .filter(({ upload }) => upload)
    .map(({ path }) => path)
}

t.test(
  '4.1 Cross-origin: a page of another origin is refused unless ALLOWED_ORIGINS lets it in',
  async (t) => {
    const preflight = (origin: string) => ({
      headers: {
        origin,
        'access-control-request-method': 'PUT',
        'access-control-request-headers': 'content-type',
      },
    })
    const closed = await startApi(t)
    const refused = await closed.client.ask('OPTIONS', '/organizations/1', preflight('https://a.example'))
    t.equal(refused.status, 405)
    t.equal(refused.headers.get('access-control-allow-origin'), null)

    const { client, base } = await startApi(t, { allowedOrigins: ['https://a.example', 'https://c.example'] })
    for (const origin of ['https://a.example', 'https://c.example']) {
      const allowed = await client.ask('OPTIONS', '/organizations/1', preflight(origin))
      t.equal(allowed.status, 204)
      t.equal(allowed.headers.get('access-control-allow-origin'), origin)
      t.match(allowed.headers.get('access-control-allow-methods'), 'PUT')
      t.match(allowed.headers.get('access-control-allow-headers'), /Content-Type.*X-Requested-With/)
      t.match(allowed.headers.get('vary'), 'Origin')
      const asked = await client.get('/organizations', { headers: { origin } })
      t.equal(asked.headers.get('access-control-allow-origin'), origin)
      t.match(asked.headers.get('access-control-expose-headers'), 'X-Request-Id')
      t.equal(asked.headers.get('access-control-allow-credentials'), null, 'a cookie is no credential')
    }
    for (const origin of [
      'https://b.example',
      'https://a.example.evil.example',
      'http://a.example',
      'null',
    ]) {
      const other = await client.ask('OPTIONS', '/organizations/1', preflight(origin))
      t.equal(other.headers.get('access-control-allow-origin'), null, origin)
      const asked = await client.get('/organizations', { headers: { origin } })
      t.equal(asked.headers.get('access-control-allow-origin'), null, origin)
      t.match(asked.headers.get('vary'), 'Origin')
    }
    const plain = await client.ask('OPTIONS', '/organizations/1')
    t.match(plain, { status: 405, error: { code: 'METHOD_NOT_ALLOWED' } }, 'an OPTIONS that is no preflight')
    const failing = await client.get('/organizations/x', { headers: { origin: 'https://a.example' } })
    t.equal(
      failing.headers.get('access-control-allow-origin'),
      'https://a.example',
      'the page may read a refusal',
    )
    const outside = await ApiClient.bare(new URL(base).origin).ask('OPTIONS', '/nothing')
    t.match(outside, { status: 404, error: { code: 'NOT_FOUND' } })
  },
)
