import t, { type Test } from 'tap'
import { startApi, type TestApi } from '../support/api.ts'
import { Canaries, columnsOf } from '../support/canaries.ts'
import type { Answer, ApiClient } from '../support/client.ts'
import { httpServer } from '../support/partner-server.ts'
import { until } from '../support/processes.ts'
import {
  secretFor,
  secretRecordsOf,
  writeOnlyNames,
  wrongSecrets,
  type SecretRecord,
} from '../support/write-only.ts'

/**
 * A secret of its own goes into every write-only property that the OpenAPI document has; then every answer, every log
 * line and every column of the database is searched for all of them (specification, 2.1 rule 8).
 */

t.setTimeout(300_000)

/** What a creation needs beside its secrets; `name` is used once. */
const OPEN_PROPERTIES: Readonly<Record<string, (api: TestApi, name: string) => Promise<object>>> = {
  As2RemoteProfileCreation: async ({ client }, name) => ({
    business_partner_id: (await client.create('/partners', { name }))['id'],
    as2id: name,
    endpoint: 'http://127.0.0.1:9/as2',
    encryption_algorithm: 'None',
    receipt_signed: false,
    http_basic_username: 'waybill',
  }),
  'http-poster': async (_api, name) => ({
    name,
    url: 'http://127.0.0.1:9/in',
    http_basic_username: 'waybill',
  }),
  'notification-webhook': async (_api, name) => ({ name, basic_username: 'waybill' }),
  OidcProviderCreation: async (_api, name) => ({
    name,
    issuer_url: `http://127.0.0.1:9/${name}`,
    client_id: 'waybill',
  }),
}

/** No two records that a test makes have one name. */
function nameOf({ name }: SecretRecord, which: string): string {
  return `${name.toLowerCase()}-${which}`
}

async function openProperties(api: TestApi, record: SecretRecord, name: string): Promise<object> {
  const open = await OPEN_PROPERTIES[record.name]?.(api, name)
  if (open === undefined) throw new Error(`Say what a creation of ${record.name} needs beside its secrets`)
  return open
}

t.test('2.1 rule 8: write-only properties are in bodies alone', async (t) => {
  const { client } = await startApi(t)
  const { bodies, answers } = writeOnlyNames(client)
  t.same(Object.keys(answers), [], 'no answer is described with one')
  const named = (name: string): readonly string[] => bodies[name] ?? []
  for (const [creation, names] of Object.entries(bodies)) {
    if (!creation.startsWith('POST ')) continue
    const record = creation.split(' ').at(-1) ?? ''
    const change = Object.keys(bodies).find((each) =>
      each.endsWith(` ${record.replace('Creation', 'Change')}`),
    )
    t.same(named(change ?? ''), names, `${record}: a change takes what the creation took`)
  }
  const all = new Set(Object.values(bodies).flat())
  const specified = ['http_basic_password', 'basic_password', 'http_headers', 'headers', 'signing_secret']
  for (const name of [...specified, 'url', 'client_secret']) t.ok(all.has(name), name)
})

t.test('2.1 rule 8: no write-only value is in an answer, a log line or a column', async (t) => {
  const canaries = new Canaries()
  const api = await startApi(t, { log: canaries.log })
  const records = secretRecordsOf(api.client)
  t.ok(records.length >= 4, records.map(({ name }) => name).join(', '))
  for (const record of records) {
    t.test(`of ${record.name}`, (t) => stored(t, api, { record, canaries }))
  }
  t.test('while an instance delivers to a server that repeats what it was sent', (t) =>
    delivered(t, api, canaries),
  )
  t.test('in a failure of the server', (t) => failing(t, api, { records, canaries }))
  t.test('in whatever can be read', async () => {
    for (const path of await readablePaths(api.client)) canaries.seen(await api.client.get(path))
    const root = api.base.slice(0, api.base.indexOf('/api/'))
    for (const path of ['/metrics', '/docs', '/livez', '/readyz']) {
      canaries.answers.push(await (await fetch(root + path)).text())
    }
  })
  t.test('is found', async (t) => {
    // What is done in the background is written too.
    await api.supervisor.shutdown()
    await api.identity.lastUse.stop()
    t.ok(canaries.size > 200)
    t.ok(canaries.answers.length > 200)
    t.ok(canaries.lines.length > 200)
    t.same(canaries.missed(), [], 'where they are, they are found')
    t.same(
      canaries.answers.flatMap((text) => canaries.leaksIn(text)),
      [],
      'in answers',
    )
    t.same(
      canaries.lines.flatMap((text) => canaries.leaksIn(text)),
      [],
      'in log lines',
    )
    const columns = await columnsOf(api.database.pool)
    t.match(columns, /oidc_provider .*-first/)
    t.same(canaries.leaksIn(columns), [], 'in columns')
  })
})

interface Sending {
  readonly record: SecretRecord
  readonly canaries: Canaries
}

/** Creates and changes a record with secrets in all its write-only properties, in every way that is refused, too. */
async function stored(t: Test, api: TestApi, { record, canaries }: Sending): Promise<void> {
  const { client } = api
  const { name, path, single, properties } = record
  const open = await openProperties(api, record, nameOf(record, 'first'))
  const secrets = (why: string): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(properties).map(([key, schema]) => [
        key,
        secretFor(schema, canaries, `${name} ${key} ${why}`),
      ]),
    )
  const post = async (body: object): Promise<Answer> => canaries.seen(await client.post(path, body))
  const asked = async (what: Promise<Answer>, status: number): Promise<Answer> => {
    const answer = await what
    t.equal(answer.status, status, answer.text)
    return answer
  }
  const unknown = () => ({ unknown: canaries.make(`${name}, unknown property`) })

  await asked(post({ ...open, ...secrets('with an unknown property'), ...unknown() }), 400)
  for (const key of Object.keys(properties)) {
    for (const wrong of wrongSecrets(canaries, `${name} ${key}`)) {
      await asked(post({ ...open, ...secrets('beside'), ...unknown(), [key]: wrong }), 400)
    }
  }
  const { data } = await asked(post({ ...open, ...secrets('created') }), 201)
  await asked(post({ ...open, ...secrets('created again') }), 409)
  const id = data['id'] ?? data['business_partner_id']
  const place = single
    .replace('{type}', String(data['type']))
    .replace('{name}', String(data['name']))
    .replace('{id}', String(id))
  const put = async (body: object): Promise<Answer> => canaries.seen(await client.put(place, body))
  await asked(put({ ...secrets('changed'), ...unknown() }), 400)
  for (const key of Object.keys(properties)) {
    for (const wrong of wrongSecrets(canaries, `${name} ${key} changed`)) await put({ [key]: wrong })
  }
  await asked(put({ ...secrets('changed') }), 200)
  for (const url of ['url', 'endpoint', 'issuer_url']) await put({ [url]: 'https://other.example/' })
  const kept = canaries.seen(await client.get(place))
  for (const key of Object.keys(properties)) t.notOk(key in kept.data, key)
  await asked(put(kept.data), 200)
}

/** A server that answers 500 and 400 with the request's headers in its body. */
async function delivered(t: Test, { client }: TestApi, canaries: Canaries): Promise<void> {
  const seen = async (what: Promise<Answer>): Promise<Answer> => canaries.seen(await what)
  let asked = 0
  const server = await httpServer(t, (request, response) => {
    asked += 1
    response.writeHead(asked % 2 === 0 ? 400 : 500, {
      'content-type': 'text/plain',
      'x-repeated': request.headers.authorization ?? '',
    })
    response.end(JSON.stringify(request.headers))
  })
  await client.create('/organizations', { name: 'acme' })
  await client.create('/partners', { name: 'initech' })
  const settings = {
    name: 'repeated',
    url: `http://127.0.0.1:${server.port}/`,
    http_basic_username: 'waybill',
    http_basic_password: canaries.make('password of a delivery'),
    http_headers: [{ name: 'X-Secret', value: canaries.make('header of a delivery') }],
    signing_secret: canaries.make('signing secret of a delivery'),
    retry_initial_seconds: 1,
    retry_max_attempts: 2,
  }
  await client.create('/plugins/configs?type=http-poster', settings)
  for (const name of ['repeated', 'http-poster-first'])
    await seen(client.post(`/services/http-poster/${name}/start`))
  await seen(client.post('/services/notification-webhook/notification-webhook-first/start'))
  const parts = { from: 'acme', to: 'initech', target: 'repeated', file: 'UNA' }
  const { data } = await seen(client.ask('POST', '/messages', { parts }))
  await until(async () => asked > 0, 60_000)
  await until(async () => {
    const message = await seen(client.get(`/messages/${String(data['id'])}`))
    return (message.data['deliveries'] as { last_error: string | null }[]).some(
      ({ last_error }) => last_error !== null,
    )
  }, 60_000)
  await seen(client.get('/services'))
  for (const name of ['repeated', 'http-poster-first'])
    await seen(client.post(`/services/http-poster/${name}/stop`))
}

/** Every write fails in the database, which tells the row that it was given. */
async function failing(
  t: Test,
  api: TestApi,
  { records, canaries }: { readonly records: readonly SecretRecord[]; readonly canaries: Canaries },
): Promise<void> {
  const { pool } = api.database
  const opens = new Map<string, object>()
  for (const record of records)
    opens.set(record.name, await openProperties(api, record, nameOf(record, 'failed')))
  await pool.query(`
    create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'refused: %', new using detail = new::text, hint = current_query(); end $$;
    do $$ declare each text; begin
      for each in select tablename from pg_tables where schemaname = 'public' loop
        execute format('create trigger refuse before insert or update on %I for each row execute function refuse()', each);
      end loop;
    end $$`)
  for (const { name, path, properties } of records) {
    const secrets = Object.fromEntries(
      Object.entries(properties).map(([key, schema]) => [
        key,
        secretFor(schema, canaries, `${name} ${key} failed`),
      ]),
    )
    const answer = canaries.seen(await api.client.post(path, { ...opens.get(name), ...secrets }))
    t.equal(answer.status, 500, `${name} ${answer.text}`)
  }
  await pool.query('drop function refuse cascade')
}

/** The paths of all that can be read, of the records that are there. */
async function readablePaths(client: ApiClient): Promise<readonly string[]> {
  const { data } = await client.get('/messages')
  const messages = (data['messages'] as { id: string }[]).map(({ id }) => id)
  const instances = [
    'http-poster/http-poster-first',
    'http-poster/repeated',
    'notification-webhook/notification-webhook-first',
  ]
  return client.operations().flatMap(({ method, path, operation }) => {
    if (method !== 'GET' || JSON.stringify(operation.responses).includes('event-stream')) return []
    if (path.includes('{type}/{name}')) return instances.map((each) => path.replace('{type}/{name}', each))
    const ids = path.startsWith('/messages/') ? messages : ['1', '2', '3', '4']
    return path.includes('{id}') ? ids.map((id) => path.replace('{id}', id)) : [path]
  })
}
