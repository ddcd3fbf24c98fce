import { once } from 'node:events'
import t from 'tap'
import { pino } from 'pino'
import { z } from 'zod'
import { endpoint } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import { startApi } from '../support/api.ts'
import { answersIn, everything, exchange, openConnection } from '../support/raw-http.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

/** What the server does with HTTP itself, below what any client library would send. */

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const JSON_TYPE = 'Content-Type: application/json'

/** An operation that throws. */
const failing = (path: string, thrown: Error) =>
  endpoint({
    method: 'GET',
    path,
    operationId: `fail${path.replaceAll(/\W/g, '')}`,
    summary: 'Fails',
    tag: 'Server',
    answer: { kind: 'data', status: 200, schema: z.object({}), description: 'Never' },
    errors: ['SENDER_NOT_RUNNING', 'START_FAILED'],
    handle: () => {
      throw thrown
    },
  })

t.test('what is no HTTP request is answered in the envelope with a request id, and closed', async (t) => {
  const { base } = await startApi(t)
  for (const [text, status, code] of [
    ['BREW coffee\r\n\r\n', 400, 'INVALID_INPUT'],
    ['GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nBad header\r\n\r\n', 400, 'INVALID_INPUT'],
    ['GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n', 400, 'INVALID_INPUT'],
    ['POST /api/v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n', 400, 'INVALID_INPUT'],
    [
      'POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
      'INVALID_INPUT',
    ],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'INVALID_INPUT'],
    [
      `GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      'HEADERS_TOO_LARGE',
    ],
    [`GET /api/v1/${'x'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, 431, 'HEADERS_TOO_LARGE'],
    ['CONNECT waybill.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n', 405, 'METHOD_NOT_ALLOWED'],
  ] as const) {
    const [answer] = await exchange(base, text)
    t.equal(answer?.status, status, JSON.stringify(text.slice(0, 60)))
    t.match(answer?.headers.get('x-request-id'), ID)
    t.match(JSON.parse(answer?.body ?? ''), { data: null, error: { code } })
    t.equal(answer?.headers.get('connection'), 'close')
    t.match(answer?.headers.get('content-type'), /^application\/json/)
  }
})

t.test('a request of HTTP/1.1 without Host is refused, one of HTTP/1.0 is answered and closed', async (t) => {
  const { base } = await startApi(t)
  const [refused] = await exchange(base, 'GET /api/v1/health HTTP/1.1\r\nConnection: close\r\n\r\n')
  t.match(JSON.parse(refused?.body ?? ''), { error: { code: 'INVALID_INPUT' } })
  t.match(refused?.headers.get('x-request-id'), ID)
  const [old] = await exchange(base, 'GET /api/v1/health HTTP/1.0\r\n\r\n')
  t.equal(old?.status, 200)
  t.equal(old?.headers.get('connection'), 'close')
  t.match(old?.headers.get('x-request-id'), ID)
})

t.test('pipelined requests are answered in order, each with an id of its own', async (t) => {
  const { base } = await startApi(t)
  const ask = (name: string, last = false) => {
    const body = `{"name":"${name}"}`
    return `POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: ${body.length}\r\n${last ? 'Connection: close\r\n' : ''}\r\n${body}`
  }
  const answers = await exchange(base, ask('one') + ask('NOT VALID') + ask('two') + ask('one', true))
  t.same(
    answers.map(({ status }) => status),
    [201, 400, 201, 409],
  )
  t.equal(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size, 4)
})

t.test('a body with a refused head does not become the next request', async (t) => {
  const { base, client } = await startApi(t)
  const hidden = `POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: 17\r\n\r\n{"name":"hidden"}`
  const outer = `POST /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`
  const answers = await exchange(base, `${outer}GET /api/v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n`)
  t.same(
    answers.map(({ status }) => status),
    [404, 200],
  )
  t.equal((await client.get('/organizations')).data['total'], 0)
})

t.test('the absolute form of a request target is its path', async (t) => {
  const { base } = await startApi(t)
  const ask = (target: string) => exchange(base, `GET ${target} HTTP/1.0\r\nHost: localhost\r\n\r\n`)
  for (const target of ['http://a/api/v1/health', 'HTTP://a:80/api/v1/health?x', 'https://b/api/v1/health']) {
    t.equal((await ask(target))[0]?.status, 200, target)
  }
  t.equal((await ask('http://a'))[0]?.status, 404)
  const [asterisk] = await exchange(base, 'OPTIONS * HTTP/1.0\r\nHost: localhost\r\n\r\n')
  t.equal(asterisk?.status, 404)
})

t.test(
  'a percent sign that begins no encoded character is taken literally, after the credential',
  async (t) => {
    const { base, client } = await startApi(t)
    const answer = await client.get('/organizations/%ZZ')
    t.match(answer, {
      status: 400,
      error: { code: 'INVALID_INPUT', details: { id: 'must be a whole number' } },
    })
    t.equal((await client.get('/plugins/configs/file-writer/%FF')).status, 404)
    t.equal((await client.get('/plugins/configs/file-writer/a%2Fb')).status, 404)
    t.equal((await client.get('/organizations?q=%ZZ')).status, 200)
    t.equal((await client.get(`/plugins/configs/file-writer/${'x'.repeat(5000)}`)).status, 404)
    const release = await startApi(t, { build: 'release' })
    t.equal((await release.client.get('/organizations/%ZZ')).status, 401)
    t.ok(base)
  },
)

t.test(
  'a client that asks before it sends its body is told to go on only when the head is accepted',
  async (t) => {
    const { base } = await startApi(t)
    const head = (type: string, length: number) =>
      `POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`
    const body = '{"name":"expected"}'
    const socket = await openConnection(base)
    socket.write(head('application/json', body.length))
    const [go] = (await once(socket, 'data')) as [Buffer]
    t.match(go.toString(), /^HTTP\/1\.1 100 Continue/)
    socket.write(body)
    t.equal(answersIn(await everything(socket))[0]?.status, 201)

    const [refused] = await exchange(base, head('text/plain', 9))
    t.equal(refused?.status, 415, 'without the body')
    const other = `GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nConnection: close\r\n\r\n`
    t.equal((await exchange(base, other))[0]?.status, 200, 'another expectation is ignored')
  },
)

t.test('a slow request is bounded: 408 REQUEST_TIMEOUT, and the connection is closed', async (t) => {
  const timeouts = { headersMs: 200, requestMs: 300, checkEveryMs: 50 }
  const { base } = await startApi(t, { timeouts })
  for (const begun of [
    'GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n',
    `POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: 20\r\n\r\n{"name"`,
    `POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`,
  ]) {
    const [answer] = await exchange(base, begun)
    t.equal(answer?.status, 408, JSON.stringify(begun.slice(0, 40)))
    t.match(JSON.parse(answer?.body ?? ''), { data: null, error: { code: 'REQUEST_TIMEOUT' } })
    t.match(answer?.headers.get('x-request-id'), ID)
  }
})

t.test('a connection on which nothing moves is closed', async (t) => {
  const { base } = await startApi(t, { timeouts: { idleMs: 100 } })
  t.equal(await everything(await openConnection(base)), '')
})

t.test('a body that breaks off is no failure of the server', async (t) => {
  const lines: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
  const { base, client } = await startApi(t, { log })
  const socket = await openConnection(base)
  socket.write(
    `POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: 90\r\n\r\n{"na`,
  )
  await client.get('/health')
  socket.resetAndDestroy()
  // The log is the one place where the end of that request can be seen.
  const ended = (): boolean => lines.some((line) => line.includes('The request broke off'))
  const deadline = Date.now() + 120_000
  while (!ended() && Date.now() < deadline) await client.get('/health')
  t.ok(ended(), 'the request has ended')
  t.notOk(lines.some((line) => line.includes('"level":50') || line.includes('Request failed')))
})

t.test('a failure that the catalogue foresees is logged without an error and a stack', async (t) => {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
  const { client } = await startApi(t, {
    log,
    endpoints: [
      failing('/not-running', new WaybillError('SENDER_NOT_RUNNING', 'The AS2 sender x is stopped')),
      failing('/not-started', new WaybillError('START_FAILED', 'No such directory')),
      failing('/defect', new Error('a defect')),
    ],
  })
  const logged = (text: string) => lines.filter((line) => line.includes(text))
  const foreseen = [
    ['/not-running', 503, 'The AS2 sender x is stopped'],
    ['/not-started', 500, 'No such directory'],
  ] as const
  for (const [path, status, reason] of foreseen) {
    t.equal((await client.get(path)).status, status)
    t.equal(logged(reason).length, 1)
    t.match(logged(reason)[0], /"level":40/)
    t.notMatch(logged(reason)[0], /"stack"|http\.test\.ts/)
  }
  t.equal((await client.get('/defect')).status, 500)
  t.match(logged('a defect')[0], /"level":50.*"stack"/)
})

t.test('every answer carries X-Request-Id and security headers', async (t) => {
  const { client } = await startApi(t)
  const ids = new Set<string | null>()
  for (const path of ['/organizations', '/nothing', '/health', '/organizations/x', '/organizations/%ZZ']) {
    const { headers } = await client.get(path, { headers: { 'x-request-id': 'chosen-by-the-client' } })
    t.match(headers.get('x-request-id'), ID, path)
    ids.add(headers.get('x-request-id'))
    t.equal(headers.get('x-content-type-options'), 'nosniff')
    t.equal(headers.get('cache-control'), 'no-store')
    t.match(headers.get('content-security-policy'), "default-src 'none'")
    t.equal(headers.get('server'), null)
    t.equal(headers.get('x-powered-by'), null)
  }
  t.equal(ids.size, 5)
})
