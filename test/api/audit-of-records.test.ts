import t, { type Test } from 'tap'
import { startApi } from '../support/api.ts'
import { storeCertificate } from '../support/as2-partner.ts'
import { eventsOf, type FieldOfChange } from '../support/audit-events.ts'
import { makeCertificate } from '../support/certificates.ts'

/** Specification 2.15: every change of configuration is an event, with what it changed field by field. */

// On a busy machine many requests add up.
t.setTimeout(240_000)

const api = await startApi(t)
const { client } = api
const directory = t.testdir()
const HEADERS = [{ name: 'X-Key', value: 'hunter2' }]
const SECRET = /hunter2/

// What some of the records refer to.
await client.create('/organizations', { name: 'acme' })
await client.create('/partners', { name: 'globex' })
const acme = Number((await client.create('/organizations', { name: 'soylent' }))['id'])
const globex = Number((await client.create('/partners', { name: 'hooli' }))['id'])
const keys = makeCertificate({ commonName: 'soylent edi' })
const certificate = await storeCertificate(api, 'ours', keys, true)

/** One record of a kind through its life; each step says what its event tells. */
interface Life {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly kind: string
  /** Of the record, where it is not its `id`. */
  readonly id?: string | number
  readonly name: string
  /** Fields that the first event has, by their values; secrets apart. */
  readonly created: Readonly<Record<string, unknown>>
  readonly createdSecrets?: readonly string[]
  readonly steps: readonly {
    readonly change: Readonly<Record<string, unknown>>
    readonly changes: readonly FieldOfChange[]
    readonly name?: string
  }[]
}

/** The path of the record, which was created at `path`. */
async function live(t: Test, life: Life): Promise<string> {
  const { kind, body, steps, createdSecrets = [] } = life
  let record: Readonly<Record<string, unknown>> = {}
  const made = await eventsOf(client, async () => {
    record = await client.create(life.path, body)
  })
  const id = life.id ?? Number(record['id'])
  const place = life.path.startsWith('/plugins')
    ? `/plugins/configs/${String(id).replace(':', '/')}`
    : `${life.path}/${id}`
  const common = { actor: 'developer', kind, record_id: id }
  t.match(made, [{ ...common, action: 'created', record_name: life.name }])
  t.equal(made.length, 1)
  const open = (made[0]?.changes ?? []).filter(({ secret }) => secret !== true)
  t.match(Object.fromEntries(open.map((change) => [change.field, change.new])), life.created)
  t.notOk(
    open.some((change) => 'old' in change),
    'what is new has no old value',
  )
  t.same(
    (made[0]?.changes ?? []).filter(({ secret }) => secret === true),
    createdSecrets.map((field) => ({ field, secret: true })),
  )

  let { name } = life
  for (const step of steps) {
    name = step.name ?? name
    const events = await eventsOf(client, async () => {
      const answer = await client.put(place, step.change)
      t.equal(answer.status, 200, answer.text)
    })
    t.same(events, [{ ...common, action: 'updated', record_name: name, changes: step.changes }])
  }

  const before = await client.get(place)
  const again = await eventsOf(client, async () => {
    const answer = await client.put(place, before.data)
    t.equal(answer.status, 200)
    t.same(answer.data, before.data, 'an update that changes nothing does not move updated_at')
  })
  t.same(again, [], 'nor is it an event')

  const gone = await eventsOf(client, async () => t.equal((await client.delete(place)).status, 204))
  t.match(gone, [{ ...common, action: 'deleted', record_name: name }])
  t.equal(gone.length, 1)
  t.notOk(
    gone[0]?.changes.some((change) => 'new' in change),
    'what is gone has no new value',
  )
  const { data } = await client.get(`/audit?kind=${kind}&record_id=${id}`)
  const events = data['events'] as { record_gone: boolean }[]
  t.equal(events.length, steps.length + 2)
  t.ok(
    events.every((event) => event.record_gone),
    'all of them say that the record is gone',
  )
  return place
}

for (const [path, kind] of [
  ['/organizations', 'organization'],
  ['/partners', 'partner'],
] as const) {
  t.test(`${kind}: created, updated and deleted`, async (t) => {
    await live(t, {
      path,
      kind,
      body: { name: 'initech', display_name: 'Initech' },
      name: 'initech',
      created: { name: 'initech', display_name: 'Initech' },
      steps: [
        {
          change: { display_name: 'Initech Ltd.' },
          changes: [{ field: 'display_name', old: 'Initech', new: 'Initech Ltd.' }],
        },
        {
          change: { name: 'initrode', display_name: '' },
          changes: [
            { field: 'name', old: 'initech', new: 'initrode' },
            { field: 'display_name', old: 'Initech Ltd.', new: '' },
          ],
          name: 'initrode',
        },
      ],
    })
  })
}

t.test('route: created, updated and deleted, known by its name or by whom it goes between', async (t) => {
  const places = { base_directory: `${directory}/in`, processed_directory: `${directory}/done`, from: 'acme' }
  await client.create('/plugins/configs?type=file-poller', { name: 'source', ...places })
  await client.create('/plugins/configs?type=as2-sender', { name: 'target' })
  await live(t, {
    path: '/routes',
    kind: 'route',
    body: { source_plugin: 'source', target_plugin: 'target', from: 'acme' },
    name: 'acme → *',
    created: { source_plugin: 'source', target_plugin: 'target', from: 'acme', to: '*' },
    steps: [
      {
        change: { to: 'globex' },
        changes: [{ field: 'to', old: '*', new: 'globex' }],
        name: 'acme → globex',
      },
      {
        change: { name: 'Orders' },
        changes: [{ field: 'name', old: null, new: 'Orders' }],
        name: 'Orders',
      },
    ],
  })
})

t.test('as2-local-profile: created, updated and deleted, known by the organization', async (t) => {
  await live(t, {
    path: '/as2/local-profiles',
    kind: 'as2-local-profile',
    id: acme,
    body: { local_organization_id: acme, as2id: 'SOYLENT' },
    name: 'soylent',
    created: { local_organization_id: acme, as2id: 'SOYLENT' },
    steps: [
      {
        change: { signing_certificate_id: certificate },
        changes: [{ field: 'signing_certificate_id', old: null, new: certificate }],
      },
    ],
  })
})

t.test('as2-remote-profile: created, updated and deleted, with secrets that are never told', async (t) => {
  const endpoint = 'http://127.0.0.1:9/as2'
  await live(t, {
    path: '/as2/remote-profiles',
    kind: 'as2-remote-profile',
    id: globex,
    body: {
      business_partner_id: globex,
      as2id: 'HOOLI',
      endpoint,
      encryption_algorithm: 'None',
      receipt_signed: false,
    },
    name: 'hooli',
    created: { business_partner_id: globex, as2id: 'HOOLI', endpoint, signing_algorithm: 'SHA256' },
    steps: [
      {
        change: { http_basic_username: 'soylent', http_basic_password: 'hunter2', receipt_mode: 'None' },
        changes: [
          { field: 'http_basic_username', old: '', new: 'soylent' },
          { field: 'http_basic_password', secret: true },
          { field: 'receipt_mode', old: 'Sync', new: 'None' },
        ],
      },
      { change: { http_headers: HEADERS }, changes: [{ field: 'http_headers', secret: true }] },
      {
        change: { http_headers: [{ name: 'X-Key', value: 'hunter2!' }] },
        changes: [{ field: 'http_headers', secret: true }],
      },
      { change: { http_headers: [] }, changes: [{ field: 'http_headers', secret: true }] },
    ],
  })
})

t.test('plugin-configuration: created, updated and deleted, each type with its own secrets', async (t) => {
  const url = 'https://example.com/in'
  await live(t, {
    path: '/plugins/configs?type=http-poster',
    kind: 'plugin-configuration',
    id: 'http-poster:post',
    body: { name: 'post', url, signing_secret: '', http_headers: HEADERS },
    name: 'post',
    created: { type: 'http-poster', name: 'post', enabled: true, url, method: 'POST' },
    createdSecrets: ['http_headers'],
    steps: [
      {
        change: { url: 'https://example.com/other', http_headers: HEADERS },
        changes: [{ field: 'url', old: url, new: 'https://example.com/other' }],
      },
      {
        change: { http_basic_username: 'waybill', http_basic_password: 'hunter2', enabled: false },
        changes: [
          { field: 'http_basic_username', old: '', new: 'waybill' },
          { field: 'http_basic_password', secret: true },
          { field: 'enabled', old: true, new: false },
        ],
      },
    ],
  })
  await live(t, {
    path: '/plugins/configs?type=notification-webhook',
    kind: 'plugin-configuration',
    id: 'notification-webhook:hook',
    body: { name: 'hook', url: 'https://hooks.example.com/hunter2' },
    name: 'hook',
    created: { type: 'notification-webhook', min_severity: 'warning', codes: [] },
    createdSecrets: ['url'],
    steps: [
      { change: { url: 'https://hooks.example.com/hunter2/2' }, changes: [{ field: 'url', secret: true }] },
      {
        change: { codes: ['plugin_failed'] },
        changes: [{ field: 'codes', old: [], new: ['plugin_failed'] }],
      },
    ],
  })
})

t.test('6.3 oidc-provider: created, updated and deleted', async (t) => {
  await live(t, {
    path: '/oidc-providers',
    kind: 'oidc-provider',
    body: {
      name: 'login',
      issuer_url: 'https://login.example',
      client_id: 'waybill',
      client_secret: 'hunter2',
    },
    name: 'login',
    created: { name: 'login', issuer_url: 'https://login.example', client_id: 'waybill', enabled: true },
    createdSecrets: ['client_secret'],
    steps: [
      { change: { client_secret: 'hunter2 too' }, changes: [{ field: 'client_secret', secret: true }] },
      { change: { api_scopes: 'a b' }, changes: [{ field: 'api_scopes', old: '', new: 'a b' }] },
      { change: { name: 'sso' }, changes: [{ field: 'name', old: 'login', new: 'sso' }], name: 'sso' },
    ],
  })
})

t.test('6.3 service-account: created, updated and deleted', async (t) => {
  await live(t, {
    path: '/service-accounts',
    kind: 'service-account',
    body: { name: 'erp' },
    name: 'erp',
    created: { name: 'erp', kind: 'local', enabled: true },
    steps: [
      { change: { enabled: false }, changes: [{ field: 'enabled', old: true, new: false }] },
      { change: { description: 'SAP' }, changes: [{ field: 'description', old: '', new: 'SAP' }] },
    ],
  })
})

t.test('certificate: created, updated and deleted; its key is a secret', async (t) => {
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'umbrella edi' })
  const parts = { certificate: certificatePem, private_key: privateKeyPem, description: 'Umbrella' }
  let id = 0
  const stored = await eventsOf(client, async () => {
    id = Number((await client.ask('POST', '/certificates', { parts })).data['id'])
  })
  const common = { actor: 'developer', kind: 'certificate', record_id: id, record_name: 'umbrella edi' }
  t.match(stored, [{ ...common, action: 'created' }])
  t.equal(stored.length, 1)
  t.match(stored[0]?.changes, [
    { field: 'description', new: 'Umbrella' },
    { field: 'subject', new: /umbrella edi/ },
    { field: 'issuer' },
    { field: 'serial_number' },
    { field: 'not_before', new: /Z$/ },
    { field: 'not_after', new: /Z$/ },
    { field: 'fingerprint_sha256', new: /^[0-9a-f]{64}$/ },
    { field: 'private_key', secret: true },
  ])

  const described = await eventsOf(client, () => client.put(`/certificates/${id}`, { description: 'New' }))
  const changes = [{ field: 'description', old: 'Umbrella', new: 'New' }]
  t.same(described, [{ ...common, action: 'updated', changes }])
  t.same(await eventsOf(client, () => client.put(`/certificates/${id}`, { description: 'New' })), [])

  const deleted = await eventsOf(client, () => client.delete(`/certificates/${id}`))
  t.match(deleted, [{ ...common, action: 'deleted' }])
  t.match(deleted[0]?.changes.at(-1), { field: 'private_key', secret: true })
})

t.test('certificate: those that are imported are created, an upload alone is nothing yet', async (t) => {
  const [one, other] = ['stark edi', 'wayne edi'].map((commonName) => makeCertificate({ commonName }))
  const file = `${one?.certificatePem}${other?.certificatePem}${other?.privateKeyPem}`
  let upload: Readonly<Record<string, unknown>> = {}
  const offered = await eventsOf(client, async () => {
    upload = (await client.ask('POST', '/certificates', { parts: { certificate: file } })).data
  })
  t.same(offered, [])
  const imported = await eventsOf(client, () =>
    client.create('/certificates/import', {
      import_token: upload['import_token'],
      certificates: [
        { index: 0, description: 'Stark' },
        { index: 1, description: 'Wayne' },
      ],
    }),
  )
  t.match(imported, [
    { actor: 'developer', action: 'created', kind: 'certificate', record_name: 'stark edi' },
    { actor: 'developer', action: 'created', kind: 'certificate', record_name: 'wayne edi' },
  ])
  const secrets = imported.map(({ changes }) => changes.filter(({ secret }) => secret === true))
  t.same(secrets, [[], [{ field: 'private_key', secret: true }]])
})

t.test('settings: updated, the one record', async (t) => {
  const changed = await eventsOf(client, () => client.put('/settings', { delivery_max_dispatches: 7 }))
  const event = {
    actor: 'developer',
    action: 'updated',
    kind: 'settings',
    record_id: null,
    record_name: 'settings',
  }
  const changes = [{ field: 'delivery_max_dispatches', old: 5, new: 7 }]
  t.same(changed, [{ ...event, changes }])
  t.same(await eventsOf(client, () => client.put('/settings', { delivery_max_dispatches: 7 })), [])
})

t.test('no event has the value of a secret', async (t) => {
  const { rows } = await api.database.pool.query<{ text: string }>(
    'select row_to_json(audit_event)::text as text from audit_event',
  )
  t.ok(rows.length > 30)
  for (const { text } of rows) t.notMatch(text, SECRET)
})
