import t from 'tap'
import { AuditLog } from '../../storage/audit/audit-log.ts'
import type { NewAuditEvent } from '../../storage/audit/new-audit-event.ts'
import { AUDIT_ACTIONS, AUDIT_KINDS } from '../../storage/audit/kinds.ts'
import { query } from '../../storage/postgres/pool.ts'
import { startApi, type TestApi } from '../support/api.ts'

/** Specification 2.15, the row GET /audit of 4.2, and 6.3, over HTTP. */

t.setTimeout(240_000)

const OPS = { name: 'sa:ops', credential: 'api-token' } as const
const ALICE = { name: 'alice', credential: 'identity-token' } as const

function newEvent(changes: Partial<NewAuditEvent>): NewAuditEvent {
  return { action: 'updated', kind: 'organization', recordId: 1, recordName: 'acme', changes: [], ...changes }
}

/** Events of the log, of whom nothing else in the test writes. */
async function listed(api: TestApi, filter = ''): Promise<Record<string, unknown>[]> {
  const { status, data, text } = await api.client.get(`/audit?limit=500&${filter}`)
  if (status !== 200) throw new Error(text)
  return data['events'] as Record<string, unknown>[]
}

t.test(
  '2.15 an event has v, id, at, actor, action, kind, record_id, record_name, changes and hashes',
  async (t) => {
    const api = await startApi(t, { auditKey: 'a key of the audit chain' })
    const log = new AuditLog({ pool: api.database.pool, key: 'a key of the audit chain' })
    await log.recordAlone(
      OPS,
      newEvent({ recordId: 77, changes: [{ field: 'display_name', old: 'a', new: null }] }),
    )
    const [event] = await listed(api)
    t.same(Object.keys(event ?? {}).toSorted(), [
      'action',
      'actor',
      'at',
      'changes',
      'hash',
      'id',
      'kind',
      'prev_hash',
      'record_gone',
      'record_id',
      'record_name',
      'v',
    ])
    t.match(event, {
      v: 1,
      id: Number,
      at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
      actor: 'sa:ops',
      action: 'updated',
      kind: 'organization',
      record_id: 77,
      record_name: 'acme',
      changes: [{ field: 'display_name', old: 'a', new: null }],
      prev_hash: '',
      hash: /^[0-9a-f]{64}$/,
      record_gone: true,
    })
  },
)

t.test('2.15 hash: empty without an audit key', async (t) => {
  const api = await startApi(t)
  await api.client.create('/organizations', { name: 'acme' })
  t.match(await listed(api), [{ prev_hash: '', hash: '' }])
})

t.test(
  '2.15 record_name is the name at that moment, record_gone tells whether the record is gone now',
  async (t) => {
    const api = await startApi(t)
    const { client } = api
    const { id } = await client.create('/organizations', { name: 'acme' })
    t.match(await listed(api), [
      { action: 'created', record_id: id, record_name: 'acme', record_gone: false },
    ])
    t.equal((await client.put(`/organizations/${String(id)}`, { display_name: 'ACME' })).status, 200)
    t.equal((await client.delete(`/organizations/${String(id)}`)).status, 204)
    t.match(await listed(api), [
      { action: 'deleted', record_id: id, record_gone: true },
      { action: 'updated', record_id: id, record_gone: true },
      { action: 'created', record_id: id, record_gone: true },
    ])
  },
)

t.test('2.15 record_gone is told of every kind that has records', async (t) => {
  const api = await startApi(t)
  const { pool } = api.database
  const log = new AuditLog({ pool, key: null })
  const { id } = await api.client.create('/partners', { name: 'globex' })
  const directory = t.testdir()
  const plugin = { name: 'archive', base_directory: directory, enabled: false }
  const made = await api.client.post('/plugins/configs?type=file-writer', plugin)
  t.equal(made.status, 201, made.text)
  const from = (await listed(api)).length
  for (const kind of AUDIT_KINDS) {
    await log.recordAlone(OPS, newEvent({ kind, recordId: null, recordName: 'none' }))
    await log.recordAlone(OPS, newEvent({ kind, recordId: 999_999, recordName: 'gone' }))
    await log.recordAlone(OPS, newEvent({ kind, recordId: '99999999999999', recordName: 'gone' }))
    await log.recordAlone(OPS, newEvent({ kind, recordId: 'no such', recordName: 'gone' }))
  }
  const neverGone = new Set(['settings', 'secret-key', 'audit-log'])
  for (const event of (await listed(api)).slice(0, -from)) {
    const { kind, record_name, record_gone } = event
    t.equal(record_gone, record_name === 'gone' && !neverGone.has(String(kind)), JSON.stringify(event))
  }
  await log.recordAlone(OPS, newEvent({ kind: 'partner', recordId: Number(id) }))
  await log.recordAlone(OPS, newEvent({ kind: 'service-instance', recordId: 'file-writer:archive' }))
  await log.recordAlone(OPS, newEvent({ kind: 'service-instance', recordId: 'http-poster:archive' }))
  t.match((await listed(api)).slice(0, 3), [
    { record_id: 'http-poster:archive', record_gone: true },
    { record_id: 'file-writer:archive', record_gone: false },
    { record_id: id, record_gone: false },
  ])
})

t.test('4.2 GET /audit: newest first, 50 on a page', async (t) => {
  const api = await startApi(t)
  const log = new AuditLog({ pool: api.database.pool, key: null })
  for (let at = 1; at <= 60; at += 1) await log.recordAlone(OPS, newEvent({ recordName: `event-${at}` }))
  const names = (data: Readonly<Record<string, unknown>>) =>
    (data['events'] as { record_name: string }[]).map(({ record_name }) => record_name)
  const { data } = await api.client.get('/audit')
  t.match(data, { total: 60, limit: 50, offset: 0 })
  t.same(
    names(data),
    Array.from({ length: 50 }, (_, at) => `event-${60 - at}`),
  )
  const rest = await api.client.get('/audit?offset=58&limit=9')
  t.match(rest.data, { total: 60, limit: 9, offset: 58 })
  t.same(names(rest.data), ['event-2', 'event-1'])
  const beyond = await api.client.get('/audit?offset=60')
  t.match(beyond.data, { total: 60, events: [] })
})

t.test('4.2 GET /audit: kind, action, actor, record_id, record_name', async (t) => {
  const api = await startApi(t)
  const log = new AuditLog({ pool: api.database.pool, key: null })
  await log.recordAlone(OPS, newEvent({ recordName: 'a', recordId: 1 }))
  await log.recordAlone(ALICE, newEvent({ recordName: 'b', recordId: 2, kind: 'partner' }))
  await log.recordAlone(ALICE, newEvent({ recordName: 'c', recordId: 'x:1', kind: 'plugin-configuration' }))
  await log.recordAlone(OPS, newEvent({ recordName: 'd', recordId: null, kind: 'settings', action: 'made' }))
  const found = async (filter: string) =>
    (await listed(api, filter)).map(({ record_name }) => String(record_name)).join('')
  t.equal(await found(''), 'dcba')
  t.equal(await found('kind=partner'), 'b')
  t.equal(await found('kind=oidc-provider'), '')
  t.equal(await found('action=updated'), 'cba')
  t.equal(await found('action=deleted'), '')
  t.equal(await found('actor=alice'), 'cb')
  t.equal(await found('actor=sa:ops'), 'da')
  t.equal(await found('actor=sa%3Aops'), 'da')
  t.equal(await found('actor=nobody'), '', 'an unknown actor has done nothing')
  t.equal(await found('record_id=2'), 'b')
  t.equal(await found('record_id=x:1'), 'c')
  t.equal(await found('record_id=nothing'), '')
  t.equal(await found('record_name=a'), 'a')
  t.equal(await found('record_name=A'), '')
  t.equal(
    await found('actor=alice&kind=partner&action=updated&record_id=2&record_name=b'),
    'b',
    'they combine',
  )
  t.equal(await found('actor=alice&record_name=a'), '')
  const total = await api.client.get('/audit?actor=alice&limit=1')
  t.match(total.data, { total: 2, limit: 1 })
})

t.test('4.2 GET /audit: every kind and action is a filter, any other value is 400', async (t) => {
  const { client } = await startApi(t)
  for (const kind of AUDIT_KINDS) t.equal((await client.get(`/audit?kind=${kind}`)).status, 200, kind)
  for (const action of AUDIT_ACTIONS)
    t.equal((await client.get(`/audit?action=${action}`)).status, 200, action)
  for (const [name, values] of [
    ['kind', ['Organization', 'organizations', 'x', '']],
    ['action', ['create', 'CREATED', '']],
    ['actor', ['']],
    ['record_id', ['']],
    ['record_name', ['']],
    ['from', ['', 'yesterday', '2026-02-30', '2026-3-2', '1767225600', '2026-03-02T09:30:00', '2026-03-02T']],
    ['to', ['', 'today', '2026-13-01', '20260302', '2026-03-02T24:00:00Z', 'null']],
  ] as const) {
    for (const value of values) {
      const { status, error } = await client.get(`/audit?${name}=${value}`)
      t.match({ status, code: error?.code }, { status: 400, code: 'INVALID_INPUT' }, `${name}=${value}`)
      t.same(Object.keys(error?.details ?? {}), [name], `${name}=${value}`)
    }
  }
})

t.test('4.2 GET /audit: an unknown parameter is 400 naming it', async (t) => {
  const { client } = await startApi(t)
  for (const name of ['q', 'Kind', 'since', 'record', 'constructor', '__proto__', 'sort']) {
    const { status, error } = await client.get(`/audit?${name}=1`)
    t.equal(status, 400, name)
    t.equal(error?.code, 'INVALID_INPUT')
    t.same(error?.details, JSON.parse(`{"${name}":"unknown parameter"}`), name)
  }
  const two = await client.get('/audit?one=1&two=&limit=0')
  t.same(Object.keys(two.error?.details ?? {}).toSorted(), ['limit', 'one', 'two'])
})

t.test(
  '4.2 GET /audit: from and to are RFC 3339 or a date, UTC; a date as to names the whole day',
  async (t) => {
    const api = await startApi(t)
    const times = [
      '2026-03-01T23:59:59.999Z',
      '2026-03-02T00:00:00.000Z',
      '2026-03-02T09:30:00.000Z',
      '2026-03-02T23:59:59.999Z',
      '2026-03-03T00:00:00.000Z',
    ]
    for (const at of times) {
      await query(
        api.database.pool,
        `insert into audit_event (at, actor, action, kind, record_id, record_name, changes)
       values ($1, 'system', 'updated', 'settings', null, 'settings', '[]')`,
        [at],
      )
    }
    const found = async (filter: string) =>
      (await listed(api, filter)).map(({ at }) => times.indexOf(String(at))).toReversed()
    t.same(await found(''), [0, 1, 2, 3, 4])
    t.same(await found('from=2026-03-02'), [1, 2, 3, 4])
    t.same(await found('to=2026-03-02'), [0, 1, 2, 3])
    t.same(await found('from=2026-03-02&to=2026-03-02'), [1, 2, 3])
    t.same(await found('from=2026-03-03&to=2026-03-02'), [])
    t.same(await found('from=2026-03-02T09:30:00Z'), [2, 3, 4], 'from is inclusive')
    t.same(await found('to=2026-03-02T09:30:00Z'), [0, 1], 'a time as to is exclusive')
    t.same(await found('from=2026-03-02T10:30:00%2B01:00&to=2026-03-02T10:30:00.001%2B01:00'), [2])
    t.same(await found('from=0001-01-01&to=9999-12-31'), [0, 1, 2, 3, 4])
    t.same(await found('to=2026-02-28'), [])
  },
)

t.test('6.3 identity providers, service accounts, API tokens and settings are audited', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const provider = await client.create('/oidc-providers', {
    name: 'corporate',
    issuer_url: 'https://login.corporate.example/',
    client_id: 'waybill',
    client_secret: 'a secret of the provider',
  })
  const changed = await client.put(`/oidc-providers/${String(provider['id'])}`, { display_name: 'Corporate' })
  t.equal(changed.status, 200)
  t.equal((await client.delete(`/oidc-providers/${String(provider['id'])}`)).status, 204)
  const account = await client.create('/service-accounts', { name: 'ops', kind: 'local' })
  const token = await client.create('/api-tokens', { service_account: 'ops', label: 'first' })
  t.equal((await client.delete(`/api-tokens/${String(token['id'])}`)).status, 204)
  t.equal((await client.put('/settings', { delivery_max_dispatches: 7 })).status, 200)
  t.equal((await client.delete(`/service-accounts/${String(account['id'])}`)).status, 204)
  const events = (await listed(api)).toReversed()
  for (const expected of [
    { actor: 'developer', action: 'created', kind: 'oidc-provider', record_id: provider['id'] },
    {
      action: 'updated',
      kind: 'oidc-provider',
      record_name: 'corporate',
      changes: [{ field: 'display_name', old: '', new: 'Corporate' }],
    },
    { action: 'deleted', kind: 'oidc-provider', record_id: provider['id'], record_gone: true },
    { actor: 'developer', action: 'created', kind: 'service-account', record_name: 'ops', record_gone: true },
    { actor: 'developer', action: 'made', kind: 'api-token', record_id: token['id'], record_gone: false },
    { actor: 'developer', action: 'revoked', kind: 'api-token', record_id: token['id'] },
    {
      action: 'updated',
      kind: 'settings',
      record_id: null,
      changes: [{ field: 'delivery_max_dispatches', old: 5, new: 7 }],
    },
    { action: 'deleted', kind: 'service-account', record_id: account['id'], record_gone: true },
  ]) {
    t.ok(
      events.some((event) => matches(event, expected)),
      `${expected.action} ${expected.kind}`,
    )
  }
  t.notMatch(JSON.stringify(events), new RegExp(String(token['token']).slice(16)))
  t.notMatch(JSON.stringify(events), /a secret of the provider/)
})

function matches(event: Record<string, unknown>, expected: Record<string, unknown>): boolean {
  return Object.entries(expected).every(
    ([name, value]) => JSON.stringify(event[name]) === JSON.stringify(value),
  )
}
