import t from 'tap'
import { z } from 'zod'
import { endpoint } from '../../../runtime/endpoint/endpoint.ts'
import { ERRORS } from '../../../runtime/errors.ts'
import { startApi } from '../../support/api.ts'
import { makeCertificate } from '../../support/certificates.ts'
import type { Answer } from '../../support/client.ts'
import { storeMessages } from '../../support/stored-messages.ts'

/** Specification 7: each code with its status, provoked over HTTP. */

/** What of a tap test is used here. */
type Checks = Pick<typeof t, 'equal' | 'match' | 'same'>

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

t.test('7 Errors', async (t) => {
  const api = await startApi(t, { endpoints: [broken] })
  const { client, database } = api
  const release = await startApi(t, { build: 'release' })
  const acme = Number((await client.create('/organizations', { name: 'acme' }))['id'])
  const globex = Number((await client.create('/partners', { name: 'globex' }))['id'])
  const places = { base_directory: `${t.testdirName}/in`, processed_directory: `${t.testdirName}/done` }
  await client.create('/plugins/configs?type=file-poller', { name: 'poller', from: 'acme', ...places })
  await client.create('/plugins/configs?type=file-writer', {
    name: 'writer',
    base_directory: `${t.testdirName}/out`,
  })
  const route = { name: 'main', source_plugin: 'poller', from: 'acme', to: 'globex', target_plugin: 'writer' }
  await client.create('/routes', route)
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'acme' })
  const upload = () =>
    client.ask('POST', '/certificates', {
      parts: { certificate: certificatePem, private_key: privateKeyPem, description: 'Of ACME' },
    })
  const certificate = Number((await upload()).data['id'])
  await client.create('/as2/local-profiles', {
    local_organization_id: acme,
    as2id: 'ACME',
    signing_certificate_id: certificate,
  })

  const seen = new Set<string>()
  const told = (t: Checks, answer: Answer, status: number, code: keyof typeof ERRORS, what: string): void => {
    seen.add(code)
    t.equal(ERRORS[code].status, status, `${code} is ${status} in the catalogue`)
    t.match(answer, { status, error: { code, message: /./ } }, what)
    t.same(Object.keys(JSON.parse(answer.text) as object), ['data', 'error'])
    t.equal((JSON.parse(answer.text) as { data: unknown }).data, null)
  }

  t.test(
    '7 INVALID_INPUT (400): malformed body, path id or query parameter, or failed validation',
    async (t) => {
      const headers = { 'content-type': 'application/json' }
      told(t, await client.ask('POST', '/organizations', { raw: '{', headers }), 400, 'INVALID_INPUT', 'body')
      told(t, await client.get('/organizations/x'), 400, 'INVALID_INPUT', 'path id')
      told(t, await client.get('/organizations?limit=0'), 400, 'INVALID_INPUT', 'query parameter')
      told(t, await client.post('/organizations', {}), 400, 'INVALID_INPUT', 'validation')
    },
  )
  t.test('7 MISSING_HEADER (400): upload without X-Requested-With', async (t) => {
    for (const path of ['/certificates', '/messages']) {
      const headers = { 'content-type': 'multipart/form-data; boundary=x' }
      told(t, await client.ask('POST', path, { raw: '--x--', headers }), 400, 'MISSING_HEADER', path)
    }
  })
  t.test('7 MISSING_TYPE (400): POST /plugins/configs without type', async (t) => {
    for (const query of ['', '?type=']) {
      told(t, await client.post(`/plugins/configs${query}`, { name: 'a' }), 400, 'MISSING_TYPE', query)
    }
  })
  t.test('7 INVALID_TYPE (400): unknown plugin type', async (t) => {
    told(t, await client.post('/plugins/configs?type=fax', { name: 'a' }), 400, 'INVALID_TYPE', 'create')
    told(t, await client.get('/plugins/configs/fax/a'), 400, 'INVALID_TYPE', 'in a path')
  })
  t.test('7 MISSING_AUTH_HEADER (401): no Authorization header', async (t) => {
    told(t, await release.client.get('/organizations'), 401, 'MISSING_AUTH_HEADER', 'none')
  })
  t.test('7 INVALID_AUTH_HEADER (401): header is not Bearer <token>', async (t) => {
    const headers = { authorization: 'Basic YTpi' }
    told(t, await release.client.get('/organizations', { headers }), 401, 'INVALID_AUTH_HEADER', 'Basic')
  })
  t.test('7 INVALID_TOKEN (401): a token that is not accepted; the message never says why', async (t) => {
    const messages = new Set<string | undefined>()
    for (const token of ['x', 'wbl_000000000000abc', 'a.b.c']) {
      const headers = { authorization: `Bearer ${token}` }
      const answer = await release.client.get('/organizations', { headers })
      told(t, answer, 401, 'INVALID_TOKEN', token)
      messages.add(answer.error?.message)
    }
    t.equal(messages.size, 1)
  })
  t.test('7 NOT_FOUND (404): no such record, and the message says of which kind', async (t) => {
    const missing = '00000000-0000-4000-8000-000000000000'
    for (const [path, message] of [
      ['/organizations/999999', 'Organization not found'],
      ['/partners/999999', 'Partner not found'],
      ['/routes/999999', 'Route not found'],
      ['/certificates/999999', 'Certificate not found'],
      ['/as2/local-profiles/999999', /not found/],
      ['/as2/remote-profiles/999999', /not found/],
      ['/plugins/configs/file-writer/nosuch', /not found/],
      [`/messages/${missing}`, 'Message not found'],
      [`/messages/${missing}/payload`, 'Message not found'],
    ] as const) {
      const answer = await client.get(path)
      told(t, answer, 404, 'NOT_FOUND', path)
      t.match(answer.error?.message, message)
    }
    told(t, await client.post('/services/file-writer/nosuch/start'), 404, 'NOT_FOUND', 'an instance')
    told(t, await client.get('/nothing'), 404, 'NOT_FOUND', 'a path')
  })
  t.test('7 CONFLICT (409): a record with the same name exists', async (t) => {
    const conflict = async (path: string, body: object) =>
      told(t, await client.post(path, body), 409, 'CONFLICT', path)
    await conflict('/organizations', { name: 'acme' })
    await conflict('/partners', { name: 'globex' })
    await conflict('/routes', { ...route, from: '*', to: '*' })
    await conflict('/plugins/configs?type=file-writer', { name: 'writer', base_directory: 'out' })
    await conflict('/as2/local-profiles', { local_organization_id: acme, as2id: 'OTHER' })
  })
  t.test('7 CERTIFICATE_EXISTS (409): the same certificate is stored; details.existing_id', async (t) => {
    const answer = await upload()
    told(t, answer, 409, 'CERTIFICATE_EXISTS', 'again')
    t.same(answer.error?.details, { existing_id: certificate })
  })
  t.test(
    '7 CERTIFICATE_IN_USE (409): details.users (kind, name, fields, link) and details.total',
    async (t) => {
      const answer = await client.delete(`/certificates/${certificate}`)
      told(t, answer, 409, 'CERTIFICATE_IN_USE', 'in use')
      t.match(answer.error?.message, /acme.*signing_certificate_id/)
      t.match(listedUsers(answer)[0], {
        kind: 'as2-local-profile',
        name: 'acme',
        fields: ['signing_certificate_id'],
        link: /./,
      })
      t.equal(answer.error?.details?.['total'], 1)
    },
  )
  t.test(
    '7 NOT_REDISPATCHABLE (409): message stage is accepted; details.stage, details.allowed',
    async (t) => {
      const [id] = await storeMessages(database.pool, { status: 'Received' })
      const answer = await client.post(`/messages/${id}/redispatch`)
      told(t, answer, 409, 'NOT_REDISPATCHABLE', 'accepted')
      t.match(answer.error?.details, { stage: 'accepted', allowed: Array })
    },
  )
  t.test('7 NOT_REDELIVERABLE (409): delivery state is queued, delivering or awaiting_ack', async (t) => {
    const parts = { from: 'acme', to: 'globex', target: 'writer', file: 'UNA' }
    const sent = await client.ask('POST', '/messages', { parts })
    const [delivery] = sent.data['deliveries'] as { id: number; state: string }[]
    t.equal(delivery?.state, 'queued')
    const answer = await client.post(
      `/messages/${String(sent.data['id'])}/deliveries/${delivery?.id}/redeliver`,
    )
    told(t, answer, 409, 'NOT_REDELIVERABLE', 'queued')
    t.match(answer.error?.details, { state: 'queued', allowed: Array })
  })
  t.test('7 PAYLOAD_TOO_LARGE (413): request body above its limit', async (t) => {
    const answer = await client.post('/organizations', { name: 'a'.repeat(1024 * 1024) })
    told(t, answer, 413, 'PAYLOAD_TOO_LARGE', 'JSON')
  })
  t.test('7 UNSUPPORTED_MEDIA_TYPE (415): Content-Type differs or is missing', async (t) => {
    told(t, await client.ask('DELETE', '/routes/1'), 415, 'UNSUPPORTED_MEDIA_TYPE', 'missing')
  })
  t.test('7 INTERNAL_ERROR (500): the cause is never told to the client', async (t) => {
    const answer = await client.get('/broken')
    told(t, answer, 500, 'INTERNAL_ERROR', 'broken')
    t.notMatch(answer.text, /hunter2/)
  })
  t.test('7 SENDER_NOT_RUNNING (503): connection check while the AS2 sender is not running', async (t) => {
    await client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
    await client.create('/as2/remote-profiles', {
      business_partner_id: globex,
      as2id: 'GLOBEX',
      endpoint: 'http://127.0.0.1:9/as2',
      encryption_algorithm: 'None',
      receipt_signed: false,
    })
    const path = `/as2/remote-profiles/${globex}/check-connection`
    told(t, await client.post(path, { sender: 'sender' }), 503, 'SENDER_NOT_RUNNING', 'stopped')
  })

  t.test(
    '7 Service actions: 403 for the API server, 409 for a wrong state, 404, 400 and 500 START_FAILED',
    async (t) => {
      const act = (path: string) => client.post(`/services/${path}`)
      told(t, await act('api-server/main/restart'), 403, 'NOT_CONTROLLABLE', 'the API server')
      told(t, await act('file-writer/writer/stop'), 409, 'INVALID_STATE', 'a stopped instance')
      told(t, await act('file-writer/nosuch/stop'), 404, 'NOT_FOUND', 'an unknown instance')
      told(t, await act('file-writer/writer/dance'), 400, 'INVALID_ACTION', 'an unknown action')
      // A file cannot be a directory, whoever asks.
      await client.create('/plugins/configs?type=file-writer', {
        name: 'lost',
        base_directory: '/dev/null/out',
      })
      const failed = await act('file-writer/lost/start')
      told(t, failed, 500, 'START_FAILED', 'a failed start')
      t.ok((failed.error?.message ?? '').length > 10, 'with the reason')
    },
  )

  t.test('405 METHOD_NOT_ALLOWED: a known path with another method', async (t) => {
    told(t, await client.ask('PATCH', '/organizations/1'), 405, 'METHOD_NOT_ALLOWED', 'PATCH')
  })

  t.test('every code of the catalogue is given by an operation of the document or below it', async (t) => {
    const { text } = await client.get('/openapi.yaml')
    const belowOperations = new Set([
      'METHOD_NOT_ALLOWED',
      'REQUEST_TIMEOUT',
      'HEADERS_TOO_LARGE',
      'INSTANCE_UNAVAILABLE',
    ])
    const silent = Object.keys(ERRORS).filter(
      (code) => !belowOperations.has(code) && !text.includes(`- ${code}\n`),
    )
    t.same(silent, [])
    t.ok(seen.size >= 20, `${seen.size} codes were given here`)
  })
})

function listedUsers({ error }: Answer): readonly unknown[] {
  const users = error?.details?.['users']
  return Array.isArray(users) ? users : []
}

t.test('7 Validation failure: details has one text per rejected field, keyed by its JSON name', async (t) => {
  const { client } = await startApi(t)
  const globex = (await client.create('/partners', { name: 'globex' }))['id']
  const profile = { business_partner_id: globex, as2id: 'G', endpoint: 'http://globex.example/as2' }
  t.match(await client.post('/as2/remote-profiles', profile), {
    status: 400,
    error: {
      code: 'INVALID_INPUT',
      message: 'Validation failed',
      details: { partner_certificate_id: String },
    },
  })
  t.match((await client.put(`/partners/${String(globex)}`, { id: 7, name: 'G X' })).error?.details, {
    id: String,
  })
  t.match((await client.get('/messages?since=x&limit=-1')).error?.details, { since: String, limit: String })
  t.match(
    (await client.ask('POST', '/partners', { raw: '[]', headers: { 'content-type': 'application/json' } }))
      .error,
    {
      code: 'INVALID_INPUT',
      message: 'Invalid request body',
      details: { body: String },
    },
  )
})

t.test('7 GET /health with status unhealthy is 503 without the envelope', async (t) => {
  const { client, database } = await startApi(t)
  const connections = await Promise.all(Array.from({ length: 10 }, () => database.pool.connect()))
  const answer = await client.get('/health')
  for (const each of connections) each.release()
  t.equal(answer.status, 503)
  t.match(JSON.parse(answer.text), { status: 'unhealthy', database: 'down' })
})
