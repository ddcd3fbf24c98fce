import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startApi, type TestApi } from '../support/api.ts'
import type { Answer } from '../support/client.ts'
import { exchangeRecords } from '../support/exchange-records.ts'
import { multipart, MULTIPART_HEADERS, type Part } from '../support/multipart.ts'

/** Larger than what travels within the transaction. */
const LARGE_BYTES = 700_000

const field = (name: string, content: string): Part => ({ name, content })
const file = (content: string | Uint8Array, fileName = 'invoice.edi', type?: string): Part => ({
  name: 'file',
  fileName,
  content,
  ...(type === undefined ? {} : { type }),
})

interface Message {
  readonly id: string
  readonly status: string
  readonly file_name: string
  readonly content_type: string
  readonly size_bytes: number
  readonly deliveries: readonly { readonly target: string; readonly state: string }[]
}

function send(
  { client }: TestApi,
  parts: readonly Part[],
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return client.ask('POST', '/messages', {
    raw: multipart(parts),
    headers: { ...MULTIPART_HEADERS, ...headers },
  })
}

async function sent(api: TestApi, parts: readonly Part[]): Promise<Message> {
  const answer = await send(api, parts)
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.data as unknown as Message
}

/** What is left in the payload store, drafts among it. */
async function stored({ directory }: TestApi): Promise<string[]> {
  const names = await readdir(directory, { recursive: true })
  return names.filter((name) => name !== '.incoming')
}

async function messages({ database }: TestApi): Promise<number> {
  const { rows } = await database.pool.query<{ n: string }>('select count(*) as n from message')
  return Number(rows[0]?.n)
}

const NAMED = [field('from', 'acme'), field('to', 'globex'), field('target', 'outer')]

async function started(t: Test): Promise<TestApi> {
  const api = await startApi(t)
  await exchangeRecords(t, api)
  return api
}

t.test('POST /messages', async (t) => {
  const api = await started(t)
  const { client } = api

  t.test(
    'answers 201 with the message as GET shows it, dispatched to the target that was named',
    async (t) => {
      const answer = await send(api, [...NAMED, file('UNB+1', 'invoice.edi', 'application/edifact')])
      t.equal(answer.status, 201)
      t.match(answer.data, {
        status: 'InProgress',
        stage: 'dispatched',
        direction: 'outbound',
        source: 'api',
        from: 'acme',
        to: 'globex',
        file_name: 'invoice.edi',
        content_type: 'application/edifact',
        size_bytes: 5,
        settled_at: null,
        deliveries: [{ target: 'outer', state: 'queued', attempts: 0, last_error: null }],
        history: [
          { kind: 'status_changed', new_status: 'Received', text: 'Sent by developer' },
          { kind: 'delivery_changed', target: 'outer', new_state: 'queued' },
          { kind: 'status_changed', old_status: 'Received', new_status: 'InProgress' },
        ],
        protocols: {},
      })
      const id = String(answer.data['id'])
      t.same((await client.get(`/messages/${id}`)).data, answer.data)
      t.equal((await client.get(`/messages/${id}/payload`)).text, 'UNB+1')
    },
  )

  t.test('from a partner to an organization it is inbound', async (t) => {
    const answer = await send(api, [
      field('from', 'globex'),
      field('to', 'acme'),
      field('target', 'inner'),
      file('x'),
    ])
    t.match(answer.data, { direction: 'inbound', from: 'globex', to: 'acme' })
  })

  t.test('the parts may come in any order', async (t) => {
    for (const content of ['small', Buffer.alloc(LARGE_BYTES, 'large')]) {
      const message = await sent(api, [file(content), ...NAMED.toReversed()])
      t.equal(message.size_bytes, content.length)
      const { text } = await client.get(`/messages/${message.id}/payload`)
      t.equal(text, String(content))
    }
  })

  t.test('a large file lies at its place in the payload store at once', async (t) => {
    const content = Buffer.alloc(3_000_000, 'large file ')
    const { id } = await sent(api, [...NAMED, file(content)])
    const place = join(api.directory, id, 'unpacked')
    t.ok(content.equals(await readFile(place)))
    t.ok((await client.get(`/messages/${id}/payload`)).text === content.toString())
  })

  t.test('a file may be empty, and then has its name to show that it is there', async (t) => {
    const message = await sent(api, [...NAMED, file('', 'empty.csv')])
    t.match(message, { size_bytes: 0, file_name: 'empty.csv', content_type: 'text/csv' })
    t.equal((await client.get(`/messages/${message.id}/payload`)).text, '')
  })

  t.test('a text part under the name of the file counts as the file', async (t) => {
    const content = 'x'.repeat(1_500_000)
    const message = await sent(api, [...NAMED, field('file', content)])
    t.equal(message.size_bytes, content.length)
    t.equal(message.file_name, `${message.id}.txt`)
  })
})

t.test('POST /messages without target uses the one that the routes between the two name', async (t) => {
  const api = await started(t)
  const { client } = api
  const toGlobex = [field('from', 'acme'), field('to', 'globex'), file('x')]
  const refusalOf = async (parts: readonly Part[]) => (await send(api, parts)).error?.details
  t.match(await refusalOf(toGlobex), { target: /no route from acme to globex/ })

  await client.create('/routes', { source_plugin: 'poller', to: 'globex', target_plugin: 'outer' })
  t.match((await sent(api, toGlobex)).deliveries, [{ target: 'outer' }])
  t.match(await refusalOf([field('from', 'acme'), field('to', 'initech'), file('x')]), { target: /no route/ })

  await client.create('/routes', { source_plugin: 'poller', from: 'acme', target_plugin: 'outer' })
  t.match(
    (await sent(api, toGlobex)).deliveries,
    [{ target: 'outer' }],
    'two routes may name the same target',
  )
  t.match((await sent(api, [...toGlobex, field('target', '')])).deliveries, [{ target: 'outer' }])

  await client.create('/routes', { source_plugin: 'poller', target_plugin: 'inner' })
  t.match(await refusalOf(toGlobex), { target: /several targets.*inner, outer/ })
  t.match((await sent(api, [...toGlobex, field('target', 'inner')])).deliveries, [{ target: 'inner' }])
  t.same(await stored(api), [])
})

t.test('POST /messages refuses with 400 what names it wrongly, and keeps nothing of it', async (t) => {
  const api = await started(t)
  const { client } = api
  await client.create('/organizations', { name: 'both' })
  await client.create('/partners', { name: 'both' })
  await client.create('/organizations', { name: 'acme-2' })
  const large = file(Buffer.alloc(LARGE_BYTES, 'x'))
  const named = (from: string, to: string, target = 'outer') => [
    large,
    field('from', from),
    field('to', to),
    field('target', target),
  ]
  const cases: readonly (readonly [string, readonly Part[], readonly string[]])[] = [
    ['an unknown sender', named('nobody', 'globex'), ['from']],
    ['an unknown receiver', named('acme', 'nobody'), ['to']],
    ['both unknown, and the target too', named('nobody', 'nowhere', 'nothing'), ['from', 'target', 'to']],
    ['two organizations', named('acme', 'acme-2'), ['from', 'to']],
    ['two partners', named('globex', 'initech'), ['from', 'to']],
    ['an unknown target', named('acme', 'globex', 'nothing'), ['target']],
    ['a source as the target', named('acme', 'globex', 'poller'), ['target']],
    ['a name that none can have', named('ACME', 'globex'), ['from']],
    ['an empty name', named('', 'globex'), ['from']],
    ['no sender', [large, field('to', 'globex')], ['from']],
    ['no receiver', [large, field('from', 'acme')], ['to']],
    ['no file', NAMED, ['file']],
    ['a file field that was left empty', [...NAMED, file('', '')], ['file']],
    ['nothing at all', [], ['file', 'from', 'to']],
    ['an unknown part', [...NAMED, large, field('form', 'x')], ['form']],
    ['an unknown file', [...NAMED, large, { ...large, name: 'other' }], ['other']],
    ['a file as a field', [large, { name: 'from', fileName: 'a.txt', content: 'acme' }], ['from']],
    ['a field twice', [large, ...NAMED, field('to', 'globex')], ['to']],
    ['more files than allowed', [...NAMED, ...Array.from({ length: 51 }, () => large)], ['file']],
    ['text that cannot be stored', [large, field('from', 'ac\0me'), field('to', 'globex')], ['from']],
  ]
  for (const [what, parts, details] of cases) {
    const answer = await send(api, parts)
    t.equal(answer.status, 400, what)
    t.equal(answer.error?.code, 'INVALID_INPUT', what)
    t.same(Object.keys(answer.error?.details ?? {}).toSorted(), details, what)
  }
  t.equal(await messages(api), 0)
  t.same(await stored(api), [])
  t.match(
    await sent(api, [field('from', 'both'), field('to', 'both'), field('target', 'outer'), file('x')]),
    {
      direction: 'outbound',
    },
  )
})

t.test('POST /messages keeps the name of the file in a form that harms nobody', async (t) => {
  const api = await started(t)
  const cases: readonly (readonly [string, string | RegExp])[] = [
    ['Rechnung ü 2026.edi', 'Rechnung ü 2026.edi'],
    ['../../etc/passwd', 'passwd'],
    [String.raw`C:\Users\me\order.xml`, 'order.xml'],
    ['/', /^[0-9a-f-]{36}\.bin$/],
    ['..', /^[0-9a-f-]{36}\.bin$/],
    ['a\u0001b\tc.edi', 'a_b_c.edi'],
    ['invoice\u202efdp.exe', 'invoice_fdp.exe'],
    [`${'n'.repeat(300)}.edi`, `${'n'.repeat(251)}.edi`],
    [`${'ü'.repeat(200)}.xml`, `${'ü'.repeat(125)}.xml`],
    ['<b>"x"</b>;%41.txt'.replaceAll('"', String.raw`\"`), /41\.txt$/],
    ['.hidden', '.hidden'],
  ]
  for (const [given, expected] of cases) {
    const message = await sent(api, [...NAMED, file('x', given, 'application/octet-stream')])
    t.match(message.file_name, expected, JSON.stringify(given))
    t.ok(Buffer.byteLength(message.file_name) <= 255)
    const { status } = await api.client.get(`/messages/${message.id}/payload`)
    t.equal(status, 200)
  }
})

t.test(
  'POST /messages takes the media type from the part, or by the ending where the part says nothing',
  async (t) => {
    const api = await started(t)
    const cases: readonly (readonly [string, string | undefined, string])[] = [
      ['a.edi', 'application/x-own; charset=utf-8', 'application/x-own'],
      ['a.edi', 'application/octet-stream', 'application/edifact'],
      ['a.edi', undefined, 'application/edifact'],
      ['a.xml', 'TEXT/XML', 'text/xml'],
      ['a.unknown', undefined, 'text/plain'],
      ['a.unknown', 'application/octet-stream', 'application/octet-stream'],
      ['a.csv', 'no media type', 'text/csv'],
      // What would be taken for a layer of S/MIME, or for a receipt, when it is sent over AS2.
      ['a.xml', 'application/pkcs7-mime', 'application/xml'],
      ['a.p7m', 'application/X-PKCS7-MIME; smime-type=enveloped-data', 'application/octet-stream'],
      ['a.txt', 'message/disposition-notification', 'text/plain'],
      ['a.edi', 'multipart/report', 'application/edifact'],
    ]
    for (const [name, type, expected] of cases) {
      t.equal((await sent(api, [...NAMED, file('x', name, type)])).content_type, expected, `${name} ${type}`)
    }
  },
)

t.test('POST /messages with an Idempotency-Key makes one message, however often it is sent', async (t) => {
  const api = await started(t)
  const key = { 'idempotency-key': 'order-4711' }
  for (const content of ['small', Buffer.alloc(LARGE_BYTES, 'large')]) {
    const keyed = { 'idempotency-key': `order-${content.length}` }
    const before = await messages(api)
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => send(api, [...NAMED, file(content)], keyed)),
    )
    answers.push(await send(api, [...NAMED, file(content)], keyed))
    t.same(new Set(answers.map(({ status }) => status)), new Set([201]))
    t.equal(new Set(answers.map(({ data }) => data['id'])).size, 1)
    t.equal(await messages(api), before + 1)
  }
  const large = await stored(api)
  t.equal(large.length, 2, 'of the large one a directory and a file')

  t.equal((await send(api, [...NAMED, file('x')], key)).status, 201)
  for (const [what, parts] of [
    ['another file', [...NAMED, file('y')]],
    [
      'another receiver',
      [field('from', 'acme'), field('to', 'initech'), field('target', 'outer'), file('x')],
    ],
    ['another target', [field('from', 'acme'), field('to', 'globex'), field('target', 'inner'), file('x')]],
  ] as const) {
    const answer = await send(api, parts, key)
    t.equal(answer.status, 409, what)
    t.equal(answer.error?.code, 'CONFLICT')
  }
  const again = await send(api, [field('from', 'acme'), field('to', 'globex'), file('x')], key)
  t.equal(again.status, 201, 'also when the repeat leaves the target to the routes')
  for (const bad of ['', 'ä', 'x'.repeat(256)]) {
    const answer = await send(api, [...NAMED, file('x')], { 'idempotency-key': bad })
    t.same(Object.keys(answer.error?.details ?? {}), ['Idempotency-Key'], bad)
  }
  t.same(await stored(api), large)
})

t.test('POST /messages needs X-Requested-With and multipart/form-data', async (t) => {
  const api = await started(t)
  const raw = multipart([...NAMED, file('x')])
  const bare = await api.client.ask('POST', '/messages', {
    raw,
    headers: { 'content-type': MULTIPART_HEADERS['content-type'] },
  })
  t.equal(bare.error?.code, 'MISSING_HEADER')
  const json = await api.client.ask('POST', '/messages', {
    raw,
    headers: { 'content-type': 'application/json' },
  })
  t.equal(json.status, 415)
  t.equal(json.headers.get('accept'), 'multipart/form-data')
  t.equal(await messages(api), 0)
})

t.test('POST /messages that fails in the server leaves nothing behind', async (t) => {
  const api = await started(t)
  const { pool } = api.database
  const large = file(Buffer.alloc(LARGE_BYTES, 'x'))
  await pool.query(`alter table message add constraint broken check (file_name <> 'invoice.edi')`)
  const refused = await send(api, [...NAMED, large])
  t.equal(refused.status, 500)
  t.equal(refused.error?.code, 'INTERNAL_ERROR')
  t.same(await stored(api), [], 'the database refused it')
  await pool.query('alter table message drop constraint broken')

  await rm(join(api.directory, '.incoming'), { recursive: true })
  const full = await send(api, [large, ...NAMED])
  t.match(full, { status: 503, error: { code: 'STORAGE_UNAVAILABLE' } }, 'the store takes nothing')
  t.ok(full.headers.has('retry-after'))
  t.notMatch(full.text, api.directory)
  t.same(await stored(api), [])
  t.equal(await messages(api), 0)
  t.equal((await send(api, [...NAMED, file('small')])).status, 201, 'what is small goes on')
})

t.test('POST /messages to a target that is disabled is accepted and waits', async (t) => {
  const api = await started(t)
  await api.client.put('/plugins/configs/file-writer/outer', { enabled: false })
  const { id, deliveries } = await sent(api, [...NAMED, file('x')])
  t.match(deliveries, [{ target: 'outer', state: 'queued' }])
  t.match((await api.client.get(`/messages/${id}`)).data, { status: 'InProgress' })
})
