import t from 'tap'
import type { Pool } from 'pg'
import { query } from '../../storage/postgres/pool.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { makeAs2Partners } from '../support/as2-partner.ts'
import { auditEvents } from '../support/audit-events.ts'
import { makeCertificate } from '../support/certificates.ts'
import type { Answer, ApiClient } from '../support/client.ts'

/**
 * Every operation of the served document that is no GET, once with success: whatever it changed of the configuration,
 * which the tables tell, has its event, and what changes nothing has none. An operation that is added needs a request
 * here. Without the log, nothing is changed: event and change are one transaction.
 */

t.setTimeout(300_000)

/** What is no configuration. A table that is added is, until it stands here. */
const OTHER_TABLES = new Set([
  'acceptance_count',
  'acceptance_note',
  'alert',
  'audit_event',
  'audit_head',
  'audit_witness',
  'certificate_alert',
  'certificate_import',
  'delivery',
  'exchange_clock',
  'history',
  'identity_revision',
  'journal',
  'lease',
  'message',
  'message_change',
  'message_count',
  'message_span',
  'mikro_orm_migrations',
  'notification',
  'payload_leftover',
  'storage_outage',
  'target_work',
  'used_storage',
])

/** Beside the configuration: what an instance does is an event, and so is that the log was verified. */
const EVENTS_WITHOUT_CHANGE: Readonly<Record<string, readonly string[]>> = {
  'POST /services/{type}/{name}/{action}': ['started service-instance'],
  'POST /audit/verify': ['verified audit-log'],
}

/** All rows of the configuration. When something was used last is none of it. */
async function configuration(pool: Pool): Promise<string> {
  const tables = await query<{ name: string }>(
    pool,
    `select table_name as name from information_schema.tables
     where table_schema = current_schema() and table_type = 'BASE TABLE' order by 1`,
  )
  const rows: unknown[] = []
  for (const { name } of tables) {
    if (OTHER_TABLES.has(name)) continue
    const [found] = await query<{ rows: string[] | null }>(
      pool,
      `select array_agg((to_jsonb(r) - 'last_used_at')::text order by to_jsonb(r)::text) as rows from ${name} r`,
    )
    rows.push([name, found?.rows])
  }
  return JSON.stringify(rows)
}

/** Makes what an operation needs, and answers the request, which may be repeated until it succeeds. */
type Recipe = (client: ApiClient) => Promise<() => Promise<Answer>>

let made = 0
const next = (): string => `made-${(made += 1)}`

/** The path of a new record. */
async function created(client: ApiClient, path: string, body: object = {}): Promise<string> {
  const { id } = await client.create(path, { name: next(), ...body })
  return `${path}/${String(id)}`
}

function resource(path: string, body: () => object, change: object): Readonly<Record<string, Recipe>> {
  return {
    [`POST ${path}`]: async (client) => () => client.post(path, { name: next(), ...body() }),
    [`PUT ${path}/{id}`]: async (client) => {
      const record = await created(client, path, body())
      return () => client.put(record, change)
    },
    [`DELETE ${path}/{id}`]: async (client) => {
      const record = await created(client, path, body())
      return () => client.delete(record)
    },
  }
}

/** A profile's id is its party's. */
function profile(path: string, parties: string, link: string, body: object) {
  const party = async (client: ApiClient): Promise<number> =>
    Number((await client.create(parties, { name: next() }))['id'])
  const make = async (client: ApiClient): Promise<string> => {
    const id = await party(client)
    await client.create(path, { [link]: id, as2id: next(), ...body })
    return `${path}/${id}`
  }
  return {
    [`POST ${path}`]: async (client) => {
      const values = { [link]: await party(client), as2id: next(), ...body }
      return () => client.post(path, values)
    },
    [`PUT ${path}/{id}`]: async (client) => {
      const record = await make(client)
      return () => client.put(record, { as2id: next() })
    },
    [`DELETE ${path}/{id}`]: async (client) => {
      const record = await make(client)
      return () => client.delete(record)
    },
  } satisfies Readonly<Record<string, Recipe>>
}

function recipes(api: TestApi, directory: string, partner: string): Readonly<Record<string, Recipe>> {
  const remote = {
    endpoint: 'http://127.0.0.1:9/as2',
    encryption_algorithm: 'None',
    receipt_signed: false,
  }
  const provider = () => ({ issuer_url: `https://${next()}.example`, sign_in: false, api_audience: 'x' })
  return {
    ...resource('/organizations', () => ({}), { display_name: 'Changed' }),
    ...resource('/partners', () => ({}), { display_name: 'Changed' }),
    ...resource('/oidc-providers', provider, { display_name: 'Changed' }),
    ...resource('/service-accounts', () => ({}), { description: 'Changed' }),
    ...profile('/as2/local-profiles', '/organizations', 'local_organization_id', {}),
    ...profile('/as2/remote-profiles', '/partners', 'business_partner_id', remote),
    ...routeRecipes(),
    ...certificateRecipes(),
    ...pluginRecipes(directory),
    ...messageRecipes(api.database.pool, partner),
    'POST /api-tokens': async (client) => {
      const name = next()
      await client.create('/service-accounts', { name })
      return () => client.post('/api-tokens', { service_account: name, label: 'x' })
    },
    'DELETE /api-tokens/{id}': async (client) => {
      const name = next()
      await client.create('/service-accounts', { name })
      const { id } = await client.create('/api-tokens', { service_account: name, label: 'x' })
      return () => client.delete(`/api-tokens/${String(id)}`)
    },
    'PUT /settings': async (client) => () => client.put('/settings', { delivery_max_dispatches: 9 }),
    'POST /settings/storage/test': async (client) => {
      // Outside of the API, so that it is no change of this test.
      await api.database.pool.query('update settings set storage_local_directory = $1', [
        `${directory}/store`,
      ])
      return () => client.post('/settings/storage/test')
    },
    'POST /audit/verify': async (client) => () => client.post('/audit/verify'),
  }
}

function routeRecipes(): Readonly<Record<string, Recipe>> {
  const ends = async (client: ApiClient): Promise<object> => {
    const [source_plugin, target_plugin] = [next(), next()]
    await client.create('/plugins/configs?type=as2-receiver', { name: source_plugin })
    await client.create('/plugins/configs?type=as2-sender', { name: target_plugin })
    return { source_plugin, target_plugin }
  }
  return {
    'POST /routes': async (client) => {
      const body = await ends(client)
      return () => client.post('/routes', body)
    },
    'PUT /routes/{id}': async (client) => {
      const route = await created(client, '/routes', await ends(client))
      return () => client.put(route, { name: 'Changed' })
    },
    'DELETE /routes/{id}': async (client) => {
      const route = await created(client, '/routes', await ends(client))
      return () => client.delete(route)
    },
  }
}

function certificateRecipes(): Readonly<Record<string, Recipe>> {
  const certificate = () => makeCertificate({ commonName: next(), keyType: 'ec' }).certificatePem
  const stored = async (client: ApiClient): Promise<string> => {
    const parts = { certificate: certificate(), description: 'x' }
    const { data } = await client.ask('POST', '/certificates', { parts })
    return `/certificates/${String(data['id'])}`
  }
  return {
    'POST /certificates': async (client) => {
      const parts = { certificate: certificate(), description: 'x' }
      return () => client.ask('POST', '/certificates', { parts })
    },
    'POST /certificates/import': async (client) => {
      const parts = { certificate: certificate() }
      const { data } = await client.ask('POST', '/certificates', { parts })
      const body = {
        import_token: data['import_token'],
        certificates: [{ index: 0, description: 'x' }],
      }
      return () => client.post('/certificates/import', body)
    },
    'PUT /certificates/{id}': async (client) => {
      const path = await stored(client)
      return () => client.put(path, { description: 'Changed' })
    },
    'DELETE /certificates/{id}': async (client) => {
      const path = await stored(client)
      return () => client.delete(path)
    },
  }
}

function pluginRecipes(directory: string): Readonly<Record<string, Recipe>> {
  const writer = async (client: ApiClient): Promise<string> => {
    const name = next()
    await client.create('/plugins/configs?type=file-writer', { name, base_directory: directory })
    return name
  }
  return {
    'POST /plugins/configs': async (client) => () =>
      client.post('/plugins/configs?type=file-writer', { name: next(), base_directory: directory }),
    'PUT /plugins/configs/{type}/{name}': async (client) => {
      const name = await writer(client)
      return () => client.put(`/plugins/configs/file-writer/${name}`, { enabled: false })
    },
    'DELETE /plugins/configs/{type}/{name}': async (client) => {
      const name = await writer(client)
      return () => client.delete(`/plugins/configs/file-writer/${name}`)
    },
    'POST /plugins/configs/notification-webhook/{name}/test': async (client) => {
      const name = next()
      const body = { name, url: 'https://hooks.example.com/x' }
      await client.create('/plugins/configs?type=notification-webhook', body)
      return () => client.post(`/plugins/configs/notification-webhook/${name}/test`)
    },
    'POST /services/{type}/{name}/{action}': async (client) => {
      const name = await writer(client)
      return () => client.post(`/services/file-writer/${name}/start`)
    },
  }
}

/** Messages are no configuration; what operators do to them is in their history. */
function messageRecipes(pool: Pool, partner: string): Readonly<Record<string, Recipe>> {
  const send = (client: ApiClient): Promise<Answer> =>
    client.ask('POST', '/messages', {
      parts: { from: 'acme', to: 'globex', target: 'files', file: 'UNA' },
    })
  return {
    'POST /messages': async (client) => () => send(client),
    'POST /messages/{id}/redispatch': async (client) => {
      const { data } = await send(client)
      return () => client.post(`/messages/${String(data['id'])}/redispatch`)
    },
    'POST /messages/{id}/deliveries/{delivery_id}/redeliver': async (client) => {
      const { data } = await send(client)
      const id = String(data['id'])
      const [delivery] = data['deliveries'] as { id: number }[]
      return async () => {
        // As if nobody had taken it, and with each repeat again.
        await pool.query(
          `update delivery set state = 'stalled', waiting_since = null, finished_at = now() where message_id = $1`,
          [id],
        )
        return client.post(`/messages/${id}/deliveries/${delivery?.id}/redeliver`)
      }
    },
    'POST /as2/remote-profiles/{id}/check-connection': async (client) => () =>
      client.post(`${partner}/check-connection`, { sender: 'sender' }),
    'POST /as2/remote-profiles/{id}/test-message': async (client) => () =>
      client.post(`${partner}/test-message`, { sender: 'sender', organization: 'acme' }),
  }
}

/** As if the log were not there. */
async function withoutLog<T>(pool: Pool, work: () => Promise<T>): Promise<T> {
  await pool.query('alter table audit_event rename to audit_event_away')
  try {
    return await work()
  } finally {
    await pool.query('alter table audit_event_away rename to audit_event')
  }
}

t.test('every endpoint that changes configuration writes its event in the same transaction', async (t) => {
  const api = await startApi(t)
  const { client, database } = api
  const { pool } = database
  const directory = t.testdir()
  const { profile: partner } = await makeAs2Partners(api, 'http://127.0.0.1:9/as2')
  await client.create('/plugins/configs?type=file-writer', { name: 'files', base_directory: directory })
  await client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
  t.equal((await client.post('/services/as2-sender/sender/start')).status, 200)
  const known = recipes(api, directory, partner)
  const changing = client.operations().filter(({ method }) => method !== 'GET')
  t.ok(changing.length > 35)
  for (const { method, path } of changing) {
    const operation = `${method} ${path}`
    t.test(operation, async (t) => {
      const recipe = known[operation]
      if (recipe === undefined) throw new Error(`${operation} is new: tell here how it succeeds`)
      const request = await recipe(client)
      const before = await configuration(pool)
      const alone = EVENTS_WITHOUT_CHANGE[operation]
      const blind = alone === undefined ? await withoutLog(pool, request) : null
      t.equal(await configuration(pool), before, 'nothing is changed without its event')

      const count = (await auditEvents(client)).length
      const answer = await request()
      t.ok(answer.status < 300, answer.text)
      const events = (await auditEvents(client)).slice(count)
      const isChanged = (await configuration(pool)) !== before
      t.comment(isChanged ? 'changes configuration' : 'changes none')
      if (blind !== null) t.equal(blind.status >= 500, isChanged, `without the log: ${blind.text}`)
      for (const { actor } of events) t.equal(actor, 'developer')
      const named = events.map(({ action, kind }) => `${action} ${kind}`)
      if (alone !== undefined) t.same(named, alone)
      else t.equal(events.length > 0, isChanged, `has the events: ${named.join()}`)
    })
  }
})
