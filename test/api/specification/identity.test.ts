import t from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import { startApi } from '../../support/api.ts'
import type { Answer } from '../../support/client.ts'

/** Specification 2.8 to 2.10: each row of the tables of fields, and each sentence below them. */

t.setTimeout(240_000)

const api = await startApi(t)
const { client } = api
const ISSUER = 'https://login.example/realms/b2b'
const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
let made = 0

/** A provider that issues access tokens alone; `more` makes it another. */
function provider(more: object = {}): Record<string, unknown> {
  const n = (made += 1)
  const own = { name: `provider-${n}`, issuer_url: `https://login.example/${n}` }
  return { ...own, sign_in: false, api_audience: 'waybill', ...more }
}

const signIn = { sign_in: true, client_id: 'waybill', client_secret: 'a secret' }

/** The properties that a request is refused on. */
async function refusedOn(what: Promise<Answer>): Promise<readonly string[]> {
  const { status, error, text } = await what
  if (status !== 400 || error?.code !== 'INVALID_INPUT')
    throw new Error(`It is answered with ${status}: ${text}`)
  return Object.keys(error.details ?? {}).toSorted()
}

const create = (path: string) => ({
  accepted: (body: object) => client.create(path, body),
  refused: (body: object) => refusedOn(client.post(path, body)),
  status: async (body: object) => (await client.post(path, body)).status,
})
const providers = create('/oidc-providers')
const accounts = create('/service-accounts')
const tokens = create('/api-tokens')

const change = (path: string, record: Answer['data'], body: object): Promise<Answer> =>
  client.put(`${path}/${String(record['id'])}`, body)

t.test('2.8 id: integer', async (t) => {
  t.type((await providers.accepted(provider()))['id'], 'number')
})
t.test('2.8 name: lower case letters, digits, _, -; unique', async (t) => {
  const name = 'a-z_09'
  t.equal((await providers.accepted(provider({ name })))['name'], name)
  t.equal(await providers.status(provider({ name })), 409)
  for (const wrong of ['Upper', 'with space', 'dot.dot', 'ümlaut', '', '../x', 'x'.repeat(65)])
    t.same(await providers.refused(provider({ name: wrong })), ['name'], wrong)
})
t.test('2.8 display_name: text of the login button', async (t) => {
  const display_name = 'Sign in at Acme “B2B”'
  t.equal((await providers.accepted(provider({ display_name })))['display_name'], display_name)
})
t.test('2.8 enabled: boolean', async (t) => {
  t.equal((await providers.accepted(provider()))['enabled'], true)
  t.equal((await providers.accepted(provider({ enabled: false })))['enabled'], false)
  for (const enabled of ['true', 1, null]) t.same(await providers.refused(provider({ enabled })), ['enabled'])
})
t.test('2.8 issuer_url: unique; exactly as given; https, http only for localhost', async (t) => {
  const issuer_url = `${ISSUER}/Exactly/`
  t.equal((await providers.accepted(provider({ issuer_url })))['issuer_url'], issuer_url)
  t.equal(await providers.status(provider({ issuer_url })), 409)
  t.equal(await providers.status(provider({ issuer_url: issuer_url.slice(0, -1) })), 201, 'another issuer')
  t.equal(await providers.status(provider({ issuer_url: 'http://localhost:8180/realms' })), 201)
  for (const wrong of [
    'http://login.example',
    'http://localhost.login.example',
    'ftp://login.example',
    'login.example',
    // What a browser would make a URL of is none as it stands: no discovery document says so.
    'https:login.example',
    'https:/login.example',
    'https:///login.example',
    'https:\\\\login.example',
    'https://login.example\\realms',
    'https://@login.example/',
    'https://user@login.example/',
  ])
    t.same(await providers.refused(provider({ issuer_url: wrong })), ['issuer_url'], wrong)
})
t.test('2.8 client_id: string', async (t) => {
  t.equal((await providers.accepted(provider({ client_id: 'waybill' })))['client_id'], 'waybill')
  t.same(await providers.refused(provider({ client_id: 7 })), ['client_id'])
})
t.test('2.8 client_secret: write-only; required on create when sign_in is on', async (t) => {
  const record = await providers.accepted(provider(signIn))
  t.notOk('client_secret' in record)
  t.same(await providers.refused(provider({ ...signIn, client_secret: undefined })), ['client_secret'])
})
t.test('2.8 client_secret: kept when an update leaves it out; required again with issuer_url', async (t) => {
  const record = await providers.accepted(provider(signIn))
  t.equal((await change('/oidc-providers', record, { display_name: 'Kept' })).status, 200)
  const moved = { issuer_url: 'https://moved.login.example' }
  t.same(await refusedOn(change('/oidc-providers', record, moved)), ['client_secret'])
  const again = await change('/oidc-providers', record, { ...moved, client_secret: 'another' })
  t.equal(again.data['issuer_url'], moved.issuer_url)
})
t.test('2.8 scopes: space separated; must include openid when sign_in is on', async (t) => {
  t.equal((await providers.accepted(provider()))['scopes'], 'openid profile email', 'the default')
  t.same(await providers.refused(provider({ ...signIn, scopes: 'profile email' })), ['scopes'])
  t.same(await providers.refused(provider({ ...signIn, scopes: 'openid,profile' })), ['scopes'])
  t.equal(await providers.status(provider({ scopes: 'profile' })), 201, 'without sign_in')
})
t.test('2.8 api_scopes: space separated; empty string for none', async (t) => {
  t.equal((await providers.accepted(provider()))['api_scopes'], '')
  const api_scopes = 'waybill.read waybill.write'
  t.equal((await providers.accepted(provider({ api_scopes })))['api_scopes'], api_scopes)
  t.same(await providers.refused(provider({ api_scopes: 'two  spaces' })), ['api_scopes'])
})
t.test('2.8 api_audience: empty string means the client id', async (t) => {
  t.equal(await providers.status(provider({ api_audience: '', client_id: 'waybill' })), 201)
  t.same(await providers.refused(provider({ api_audience: '' })), ['api_audience'], 'and there is none')
})
t.test('2.8 sign_in: default true; false for a provider that needs no client', async (t) => {
  const both = await providers.refused(provider({ sign_in: undefined }))
  t.same(both, ['client_id', 'client_secret'])
  t.equal((await providers.accepted(provider({ ...signIn, sign_in: undefined })))['sign_in'], true)
  t.equal((await providers.accepted(provider()))['sign_in'], false)
})
t.test('2.8 accept_tokens_without_audience: default false', async (t) => {
  t.equal((await providers.accepted(provider()))['accept_tokens_without_audience'], false)
  const accepting = { accept_tokens_without_audience: true }
  t.equal((await providers.accepted(provider(accepting)))['accept_tokens_without_audience'], true)
})
t.test('2.8 created_at, updated_at: timestamps', async (t) => {
  const record = await providers.accepted(provider())
  t.match(record, { created_at: STAMP, updated_at: STAMP })
  const { data } = await change('/oidc-providers', record, { display_name: 'Later' })
  t.equal(data['created_at'], record['created_at'])
  t.ok(String(data['updated_at']) >= String(record['updated_at']))
})

t.test('2.9', async (t) => {
  await client.create('/oidc-providers', provider({ issuer_url: ISSUER }))
  const federated = (name: string) => ({ name, kind: 'federated', oidc_issuer: ISSUER, oidc_subject: name })

  t.test('2.9 id: integer', async (t) => t.type((await accounts.accepted({ name: 'one' }))['id'], 'number'))
  t.test('2.9 name: lower case letters, digits, _, -; unique; cannot change (400)', async (t) => {
    const record = await accounts.accepted({ name: 'a-z_09' })
    t.equal(await accounts.status({ name: 'a-z_09' }), 409)
    for (const name of ['Erp', 'sa:erp', '', 'e.r.p']) t.same(await accounts.refused({ name }), ['name'])
    t.same(await refusedOn(change('/service-accounts', record, { name: 'other' })), ['name'])
  })
  t.test('2.9 description: text', async (t) => {
    const record = await accounts.accepted({ name: 'described', description: 'Sends\nthe “orders”' })
    t.equal(record['description'], 'Sends\nthe “orders”')
    t.equal((await change('/service-accounts', record, { description: '' })).data['description'], '')
  })
  t.test('2.9 kind: local or federated; cannot change (400)', async (t) => {
    const record = await accounts.accepted({ name: 'of-a-kind' })
    t.equal(record['kind'], 'local')
    t.equal((await accounts.accepted(federated('other-kind')))['kind'], 'federated')
    t.same(await accounts.refused({ name: 'no-kind', kind: 'remote' }), ['kind'])
    t.same(await refusedOn(change('/service-accounts', record, federated('of-a-kind'))), ['kind'])
  })
  t.test('2.9 enabled: boolean', async (t) => {
    t.equal((await accounts.accepted({ name: 'on' }))['enabled'], true)
    t.equal((await accounts.accepted({ name: 'off', enabled: false }))['enabled'], false)
  })
  t.test('2.9 oidc_issuer, oidc_subject: unique together; empty string for a local account', async (t) => {
    t.match(await accounts.accepted({ name: 'local' }), { oidc_issuer: '', oidc_subject: '' })
    t.match(await accounts.accepted(federated('robot')), { oidc_issuer: ISSUER, oidc_subject: 'robot' })
    t.equal(await accounts.status({ ...federated('robot'), name: 'robot-2' }), 409)
    t.same(await accounts.refused({ ...federated('x'), kind: 'local' }), ['oidc_issuer', 'oidc_subject'])
    t.same(await accounts.refused({ ...federated('x'), oidc_issuer: `${ISSUER}/` }), ['oidc_issuer'])
  })
  t.test('2.9 last_used_at: null for never', async (t) => {
    t.equal((await accounts.accepted({ name: 'idle' }))['last_used_at'], null)
  })
  t.test('2.9 created_at, updated_at: timestamps', async (t) => {
    t.match(await accounts.accepted({ name: 'stamped' }), { created_at: STAMP, updated_at: STAMP })
  })
})

t.test('2.10', async (t) => {
  await accounts.accepted({ name: 'erp' })
  const good = { service_account: 'erp', label: 'orders' }

  t.test('2.10 id: integer', async (t) => t.type((await tokens.accepted(good))['id'], 'number'))
  t.test('2.10 public_id: the 12 characters after the token prefix', async (t) => {
    const { public_id, token } = await tokens.accepted(good)
    t.equal(public_id, String(token).slice('wbl_'.length, 'wbl_'.length + 12))
  })
  t.test('2.10 service_account: name of the local account', async (t) => {
    t.equal((await tokens.accepted(good))['service_account'], 'erp')
    for (const service_account of ['robot', 'nobody'])
      t.same(await tokens.refused({ ...good, service_account }), ['service_account'])
  })
  t.test('2.10 label: 1 to 64 characters, no control characters', async (t) => {
    for (const label of ['x', 'é'.repeat(64), '🚚'.repeat(64)])
      t.equal((await tokens.accepted({ ...good, label }))['label'], label)
    for (const label of ['', 'x'.repeat(65), '🚚'.repeat(65), 'a\u0007b', 'a\nb', 'a\u007fb', 'a\u009fb'])
      t.same(await tokens.refused({ ...good, label }), ['label'], JSON.stringify(label))
  })
  t.test('2.10 state: active, expired, revoked', async (t) => {
    const states = async () =>
      ((await client.get('/api-tokens?limit=3')).data['api_tokens'] as { state: string }[]).map(
        ({ state }) => state,
      )
    const [expired, revoked] = [await tokens.accepted(good), await tokens.accepted(good)]
    await tokens.accepted(good)
    const yesterday = new Date(systemClock.now().getTime() - 86_400_000)
    await api.database.pool.query(
      "update api_token set created_at = $1::timestamptz - interval '1 day', expires_at = $1 where id = $2",
      [yesterday, expired['id']],
    )
    await client.delete(`/api-tokens/${String(revoked['id'])}`)
    t.same(await states(), ['active', 'revoked', 'expired'])
  })
  t.test('2.10 created_at, expires_at, last_used_at, revoked_at: timestamps; null for never', async (t) => {
    const record = await tokens.accepted(good)
    t.match(record, { created_at: STAMP, expires_at: STAMP, last_used_at: null, revoked_at: null })
    await client.delete(`/api-tokens/${String(record['id'])}`)
    const { data } = await client.get('/api-tokens?limit=1')
    t.match(data['api_tokens'], [{ id: record['id'], revoked_at: STAMP }])
  })
  t.test('2.10 token: only in the 201 answer to creation; starts with wbl_', async (t) => {
    const { token } = await tokens.accepted(good)
    t.match(token, /^wbl_[0-9A-Za-z]{52,}$/)
    t.notMatch((await client.get('/api-tokens?limit=500')).text, String(token).slice(16))
  })
})
