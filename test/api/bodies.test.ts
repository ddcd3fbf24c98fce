import t from 'tap'
import { pino } from 'pino'
import { z } from 'zod'
import { endpoint } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'
import { exchange } from '../support/raw-http.ts'

/** What a JSON body may be, and how what it may not be is told. */

const JSON_TYPE = { 'content-type': 'application/json' }
const MIB = 1024 * 1024

t.test('a body that is not a JSON object is INVALID_INPUT with the reason under details.body', async (t) => {
  const { client } = await startApi(t)
  const broken = ['', ' ', '{', '[]', '"text"', '1', 'null', 'true', '{"name":"a"}x', '\u{feff}', "{'a':1}"]
  const more = ['{"name":"a",}', '{"name":undefined}', '{"name":NaN}', '{"name":"a\nb"}', '// {}', '\0{}']
  for (const raw of [...broken, ...more, String.raw`{"name":"\x41"}`]) {
    for (const [method, path] of [
      ['POST', '/organizations'],
      ['PUT', '/organizations/1'],
    ] as const) {
      const answer = await client.ask(method, path, { raw, headers: JSON_TYPE })
      t.match(
        answer,
        { status: 400, error: { code: 'INVALID_INPUT', message: 'Invalid request body' } },
        JSON.stringify(raw),
      )
      t.same(Object.keys(answer.error?.details ?? {}), ['body'])
      t.type(answer.error?.details?.['body'], 'string')
    }
  }
  for (const bytes of [
    [0x7b, 0xff, 0x7d],
    [0xfe, 0xff, 0x00, 0x7b, 0x00, 0x7d],
  ]) {
    const raw = new Uint8Array(bytes)
    const answer = await client.ask('POST', '/organizations', { raw, headers: JSON_TYPE })
    t.match(answer, { status: 400, error: { message: 'Invalid request body' } }, 'not UTF-8')
  }
})

t.test('hostile JSON is judged by the rules, or refused', async (t) => {
  const { client } = await startApi(t)
  const post = (raw: string) => client.ask('POST', '/organizations', { raw, headers: JSON_TYPE })

  t.test('a property called __proto__, constructor or the like is an unknown property', async (t) => {
    for (const name of ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '']) {
      for (const value of ['{"name":"b"}', '1', 'null']) {
        const answer = await post(`{"name":"a","${name}":${value}}`)
        t.same(answer.error?.details, Object.fromEntries([[name, 'unknown property']]), `${name} ${value}`)
      }
    }
    const only = await post('{"__proto__":{"name":"polluted"}}')
    t.same(Object.keys(only.error?.details ?? {}).toSorted(), ['__proto__', 'name'])
    t.equal(({} as Record<string, unknown>)['name'], undefined)
  })

  t.test('an endpoint without a body refuses such a property too', async (t) => {
    const raw = '{"__proto__":1,"constructor":2}'
    const answer = await client.ask('DELETE', '/organizations/1', { raw, headers: JSON_TYPE })
    t.same(Object.keys(answer.error?.details ?? {}).toSorted(), ['__proto__', 'constructor'])
  })

  t.test('deep nesting is refused by the type of the property', async (t) => {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const depth = 100_000
      const inner = open === '[' ? '' : '1'
      const answer = await post(`{"name":${open.repeat(depth)}${inner}${close.repeat(depth)}}`)
      t.match(answer, { status: 400, error: { details: { name: 'must be text' } } })
    }
  })

  t.test('of a property that is there twice the last one counts', async (t) => {
    t.match(await post('{"name":"first","name":"second"}'), { status: 201, data: { name: 'second' } })
    t.match(await post('{"name":"third","name":1}'), {
      status: 400,
      error: { details: { name: 'must be text' } },
    })
  })

  t.test('a number beyond all bounds is refused by its property', async (t) => {
    const put = (raw: string) => client.ask('PUT', '/settings', { raw, headers: JSON_TYPE })
    for (const number of ['1e999', '-1e999', '9007199254740993', '1e21', '1.5', '-0.5', '1e-7', '21', '0']) {
      const answer = await put(`{"delivery_max_dispatches":${number}}`)
      t.same(Object.keys(answer.error?.details ?? {}), ['delivery_max_dispatches'], number)
    }
    t.equal((await put('{"delivery_max_dispatches":5.0}')).status, 200)
    t.equal((await put('{"delivery_max_dispatches":0.5e1}')).status, 200)
  })

  t.test('text that cannot be stored is refused, not a failure of the server', async (t) => {
    for (const text of [
      String.raw`a\u0000b`,
      String.raw`\ud800`,
      String.raw`\udc00\ud800`,
      String.raw`x\udfff`,
    ]) {
      const answer = await post(`{"name":"acme","display_name":"${text}"}`)
      t.same(Object.keys(answer.error?.details ?? {}), ['display_name'], text)
      t.match(answer.error?.details, { display_name: /well-formed|NUL/ })
    }
    const raw = String.raw`{"name":"pair","display_name":"\ud83d\ude00"}`
    t.match(await post(raw), { status: 201, data: { display_name: '😀' } }, 'a whole pair is a character')
    t.match((await client.get('/organizations?q=a%00b')).error?.details, { q: /NUL/ })
    t.equal((await client.get('/plugins/configs/file-writer/a%00b')).status, 400)
  })

  t.test('a byte order mark before the object is ignored (RFC 8259 §8.1)', async (t) => {
    t.equal((await post('\u{feff}{"name":"marked"}')).status, 201)
  })

  t.test('a body in a content coding is not decoded', async (t) => {
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip' }
    const raw = new Uint8Array([0x1f, 0x8b, 0x08, 0])
    const answer = await client.ask('POST', '/organizations', { raw, headers })
    t.match(answer, { status: 400, error: { message: 'Invalid request body' } })
  })
})

t.test('a body of 1 MiB is read and one byte more is 413, with a length and in chunks', async (t) => {
  const { client, base } = await startApi(t)
  const bodyOf = (bytes: number) => `{"name":"${'a'.repeat(bytes - 11)}"}`
  t.equal(bodyOf(MIB).length, MIB)
  const within = await client.ask('POST', '/organizations', { raw: bodyOf(MIB), headers: JSON_TYPE })
  t.match(within, { status: 400, error: { details: { name: /at most 64/ } } }, 'the name is judged')
  const above = await client.ask('POST', '/organizations', { raw: bodyOf(MIB + 1), headers: JSON_TYPE })
  t.match(above, { status: 413, error: { code: 'PAYLOAD_TOO_LARGE' } })

  const chunked = async (bytes: number) => {
    const head =
      'POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n'
    const body = bodyOf(bytes)
    const chunks = Array.from({ length: Math.ceil(bytes / 65_536) }, (_, at) =>
      body.slice(at * 65_536, (at + 1) * 65_536),
    )
    const framed = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')
    const [answer] = await exchange(base, `${head}${framed}0\r\n\r\n`)
    return answer?.status
  }
  t.equal(await chunked(MIB), 400)
  t.equal(await chunked(MIB + 1), 413)
  for (const method of ['DELETE', 'PUT'] as const) {
    const answer = await client.ask(method, '/organizations/1', { raw: bodyOf(MIB + 1), headers: JSON_TYPE })
    t.equal(answer.status, 413, method)
  }
})

t.test('details are keyed by JSON property, with _form for what blames no field', async (t) => {
  const schema = z
    .strictObject({
      one: z.string().optional().describe('One.'),
      two: z.string().optional().describe('Two.'),
    })
    .refine(({ one, two }) => one === undefined || two === undefined, { error: 'only one can be given' })
  const both = endpoint({
    method: 'POST',
    path: '/both',
    operationId: 'both',
    summary: 'Takes one of two',
    tag: 'Server',
    body: { kind: 'create', rules: { name: 'Both', schema, readOnly: [], identity: {} } },
    answer: { kind: 'data', status: 200, schema: z.object({}), description: 'Done' },
    handle: () => ({}),
  })
  const { client } = await startApi(t, { endpoints: [both] })
  t.match(await client.post('/both', { one: 'a', two: 'b' }), {
    status: 400,
    error: {
      code: 'INVALID_INPUT',
      message: 'Validation failed',
      details: { _form: 'only one can be given' },
    },
  })
  t.match((await client.post('/both', { one: 1, three: 3 })).error?.details, {
    one: 'must be text',
    three: 'unknown property',
  })
  t.equal((await client.post('/both', { one: 'a' })).status, 200)
})

t.test(
  'a failure of the server tells nothing, and its cause is logged once with user and request id',
  async (t) => {
    const lines: Record<string, unknown>[] = []
    const log = pino(
      { level: 'info' },
      { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
    )
    const thrown = [new Error('the password is hunter2'), 'hunter2', { hunter2: true }, null]
    const broken = endpoint({
      method: 'GET',
      path: '/broken/{at}',
      operationId: 'break',
      summary: 'Breaks',
      tag: 'Server',
      params: z.object({ at: z.string().describe('Which.') }),
      answer: { kind: 'data', status: 200, schema: z.object({}), description: 'Never' },
      handle: ({ path }) => {
        throw thrown[Number(path.at)]
      },
    })
    const { client } = await startApi(t, { endpoints: [broken], log })
    for (const at of thrown.keys()) {
      lines.length = 0
      const answer = await client.get(`/broken/${at}`)
      t.match(answer, { status: 500, error: { code: 'INTERNAL_ERROR' } })
      t.equal(answer.error?.details, undefined)
      t.notMatch(answer.text, /hunter2/)
      const failures = lines.filter(({ level }) => level === 50)
      t.equal(failures.length, 1)
      t.match(failures[0], { requestId: answer.headers.get('x-request-id'), caller: 'developer' })
      if (at === 0) t.match(JSON.stringify(failures[0]), /hunter2/)
    }
  },
)
