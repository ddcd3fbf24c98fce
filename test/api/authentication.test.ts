import { request } from 'node:http'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { endpoint, SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { movableClock } from '../support/movable-clock.ts'
import { until } from '../support/processes.ts'
import { TestIssuer } from '../support/test-issuer.ts'

/** Who may come in (specification, section 5): the header, the builds, and the caller. */

t.setTimeout(240_000)

async function tokenOf(api: TestApi, service_account = 'ops'): Promise<string> {
  const values = { service_account, label: 'test', expires_in_days: 1 }
  return (await api.identity.apiTokens.createWithAccount(values, SYSTEM_CALLER)).text
}

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

/** A JWT of an issuer that nobody has. */
const FOREIGN_JWT =
  `${btoa('{"alg":"RS256"}')}.${btoa('{"iss":"https://x.example","sub":"x"}')}.AAAA`.replaceAll('=', '')

t.test('5.1 a release build answers 401 on every path but GET /health', async (t) => {
  const clock = movableClock()
  const api = await startApi(t, { build: 'release', clock })
  const { client } = api
  const refused = async (t: Test, code: string, headers: Record<string, string>): Promise<void> => {
    for (const path of [
      '/organizations',
      '/openapi.yaml',
      '/organizations/x',
      '/nothing',
      '/health/more',
      '/api-tokens',
    ]) {
      const answer = await client.get(path, { headers })
      t.equal(answer.status, 401, `${path} ${code}`)
      t.equal(answer.error?.code, code)
      t.same(Object.keys(JSON.parse(answer.text) as object), ['data', 'error'])
      t.equal(answer.headers.get('www-authenticate'), 'Bearer')
    }
    const write = await client.ask('POST', '/organizations', { raw: 'x', headers })
    t.equal(write.error?.code, code, 'before the Content-Type is looked at')
    const method = await client.ask('PATCH', '/organizations', { headers })
    t.equal(method.error?.code, code, 'before the method is looked at')
    const { rows } = await api.database.pool.query('select from organization')
    t.equal(rows.length, 0)
  }
  t.test('MISSING_AUTH_HEADER: no Authorization header', (t) => refused(t, 'MISSING_AUTH_HEADER', {}))
  t.test('5.9 a session cookie is no credential', async (t) =>
    refused(t, 'MISSING_AUTH_HEADER', { cookie: `session=${await tokenOf(api)}` }),
  )
  for (const authorization of [
    'Basic YTpi',
    'Bearer',
    'Bearer ',
    'Bearer a b',
    'wbl_abc',
    '"',
    'Bearer a,b',
  ]) {
    t.test(`INVALID_AUTH_HEADER: ${authorization} is not Bearer <token>`, (t) =>
      refused(t, 'INVALID_AUTH_HEADER', { authorization }),
    )
  }
  for (const token of ['wbl_000000000000abc', 'a.b.c', 'x', FOREIGN_JWT]) {
    t.test(`INVALID_TOKEN: ${token}`, (t) =>
      refused(t, 'INVALID_TOKEN', { authorization: `bearer ${token}` }),
    )
  }
  t.test('TOKEN_EXPIRED: an expired API token', async (t) => {
    const authorization = `Bearer ${await tokenOf(api)}`
    clock.advance(86_400_000)
    await refused(t, 'TOKEN_EXPIRED', { authorization })
  })
  t.test('GET /health is public, whatever is sent with it', async (t) => {
    t.equal((await client.get('/health')).status, 200)
    t.equal((await client.get('/health', bearer('wrong'))).status, 200)
    t.equal((await client.ask('POST', '/health')).status, 401)
  })
})

t.test('5.2 a release build lets a request with an API token in, on every path', async (t) => {
  const api = await startApi(t, { build: 'release' })
  const { client } = api
  const token = await tokenOf(api)
  for (const path of [
    '/organizations',
    '/openapi.yaml',
    '/oidc-providers',
    '/service-accounts',
    '/api-tokens',
  ])
    t.equal((await client.get(path, bearer(token))).status, 200, path)
  t.equal((await client.get('/nothing', bearer(token))).status, 404)
  const lower = { headers: { authorization: `bearer  ${token} ` } }
  t.equal((await client.get('/organizations', lower)).status, 200, 'the case of the scheme does not count')
})

t.test(
  '5.3 the developer build takes a request without credential and checks one that is given',
  async (t) => {
    const api = await startApi(t)
    const { client } = api
    t.equal((await client.get('/organizations')).status, 200)
    t.equal((await client.get('/organizations', bearer(await tokenOf(api)))).status, 200)
    const basic = await client.get('/organizations', { headers: { authorization: 'Basic YTpi' } })
    t.equal(basic.error?.code, 'INVALID_AUTH_HEADER')
    for (const token of ['x', 'wbl_000000000000abc', FOREIGN_JWT])
      t.equal((await client.get('/organizations', bearer(token))).error?.code, 'INVALID_TOKEN')
  },
)

t.test('one caller travels to the handlers and into every log line of the request', async (t) => {
  const lines: Record<string, unknown>[] = []
  const collect = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(JSON.parse(String(chunk)) as Record<string, unknown>)
      done()
    },
  })
  const issuer = await TestIssuer.start(t)
  const whoami = endpoint({
    method: 'GET',
    path: '/whoami',
    operationId: 'whoami',
    summary: 'Answer the caller',
    tag: 'Server',
    answer: {
      kind: 'data',
      status: 200,
      schema: z.object({ name: z.string(), credential: z.string(), credentialName: z.string().optional() }),
      description: 'The caller.',
    },
    handle: ({ caller, log }) => {
      log.info('asked')
      return caller
    },
  })
  const api = await startApi(t, { endpoints: [whoami], log: pino({ level: 'debug' }, collect) })
  const { client, identity } = api
  const asked = async (headers: Record<string, string>, caller: object): Promise<void> => {
    lines.length = 0
    const answer = await client.get('/whoami', { headers })
    t.same(answer.data, caller)
    const requestId = answer.headers.get('x-request-id')
    // The last line is written once the answer is on its way.
    await until(() => lines.some(({ msg }) => msg === 'Request answered'))
    const told = lines.filter(({ msg }) => msg === 'asked' || msg === 'Request answered')
    t.match(told, [
      { requestId, caller: answer.data['name'] },
      { requestId, caller: answer.data['name'] },
    ])
  }
  await asked({}, { name: 'developer', credential: 'developer-build' })

  const token = await tokenOf(api, 'erp')
  const proof = { credential: 'api-token', credentialName: token.slice(4, 16) }
  await asked(bearer(token).headers, { name: 'sa:erp', ...proof })

  await client.create('/oidc-providers', {
    name: 'login',
    issuer_url: issuer.url,
    sign_in: false,
    api_audience: 'waybill',
  })
  const robot = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
  await client.create('/service-accounts', { name: 'robot', kind: 'federated', ...robot })
  await identity.users.add(
    'anna',
    { kind: 'identity', issuer: issuer.url, subject: 'subject of anna' },
    SYSTEM_CALLER,
  )
  const identityToken = { credential: 'identity-token', credentialName: 'login' }
  await asked(bearer(await issuer.token()).headers, { name: 'sa:robot', ...identityToken })
  const annas = await issuer.token({ claims: { sub: 'subject of anna' } })
  await asked(bearer(annas).headers, { name: 'subject of anna', ...identityToken })

  lines.length = 0
  const refused = await client.get('/whoami', bearer(await issuer.token({ claims: { aud: 'other' } })))
  const requestId = refused.headers.get('x-request-id')
  const why = lines.filter(({ msg }) => msg === 'Token refused')
  t.match(why, [{ requestId, reason: /another audience/ }], 'the log alone says why')
  t.notMatch(refused.text, /audience/)
})

t.test(
  '5.3 and 5.11 the developer build obeys no page that was opened by a name which is not ours',
  async (t) => {
    // As a browser asks whose page has its own name lead to this machine.
    const { base } = await startApi(t, { publicUrl: 'https://waybill.example.com' })
    const { hostname, port, pathname } = new URL(base)
    const path = `${pathname}/organizations/1`
    const statusFor = (host: string, origin: Record<string, string>): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const headers = { host, 'content-type': 'application/json', ...origin }
        request({ hostname, port, path, method: 'DELETE', headers }, (answer) => {
          answer.resume()
          resolve(answer.statusCode)
        })
          .once('error', reject)
          .end()
      })
    for (const host of [
      'localhost',
      `127.0.0.1:${port}`,
      `[::1]:${port}`,
      'app.localhost',
      'waybill.example.com',
    ])
      t.equal(await statusFor(host, { origin: `http://${host}` }), 404, host)
    for (const host of [
      'evil.example.com',
      `evil.example.com:${port}`,
      'localhost.evil.example.com',
      '127.0.0.1.nip.io',
    ]) {
      t.equal(await statusFor(host, { origin: `http://${host}` }), 401, host)
      t.equal(await statusFor(host, {}), 404, 'what is no browser may call us as it likes')
    }
  },
)
