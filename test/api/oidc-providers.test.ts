import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'

/** Identity providers (specification, 2.8). */

t.setTimeout(240_000)

const PATH = '/oidc-providers'
let made = 0

/** A body that is accepted: it signs in. */
function signingIn(more: object = {}): Record<string, unknown> {
  const n = (made += 1)
  return {
    name: `provider-${n}`,
    issuer_url: `https://login.example/${n}`,
    client_id: 'waybill',
    client_secret: `secret ${n}`,
    ...more,
  }
}

/** A body that is accepted: it only issues access tokens. */
function issuing(more: object = {}): Record<string, unknown> {
  const { client_id: _id, client_secret: _secret, ...rest } = signingIn()
  return { ...rest, sign_in: false, api_audience: 'waybill', ...more }
}

t.test('2.8 identity providers', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const refused = async (body: unknown, status = 400) => {
    const answer = await client.post(PATH, body)
    t.equal(answer.status, status, JSON.stringify(body))
    return Object.keys(answer.error?.details ?? {}).toSorted()
  }

  t.test('a creation starts from the defaults of the form', async (t) => {
    const created = await client.post(PATH, {
      name: 'corporate',
      issuer_url: 'https://login.corporate.example/',
      client_id: 'waybill',
      client_secret: 'hidden',
    })
    t.equal(created.status, 201)
    t.match(created.data, {
      id: Number,
      name: 'corporate',
      display_name: '',
      enabled: true,
      issuer_url: 'https://login.corporate.example/',
      client_id: 'waybill',
      scopes: 'openid profile email',
      api_scopes: '',
      api_audience: '',
      sign_in: true,
      accept_tokens_without_audience: false,
      created_at: String,
      updated_at: String,
    })
    t.same((await client.get(`${PATH}/${String(created.data['id'])}`)).data, created.data)
  })

  t.test('client_secret is write-only: no answer has it, and it is sealed in the database', async (t) => {
    const body = signingIn({ client_secret: 'a very hidden secret' })
    const created = await client.post(PATH, body)
    const path = `${PATH}/${String(created.data['id'])}`
    const answers = [
      created,
      await client.get(path),
      await client.get(PATH),
      await client.put(path, { client_secret: 'a very hidden secret', display_name: 'New' }),
      await client.put(path, { client_secret: 'a very hidden secret', name: 'NOT VALID' }),
      await client.post(PATH, body),
    ]
    for (const { text } of answers) t.notMatch(text, /very hidden/)
    t.notOk('client_secret' in created.data)
    const { rows } = await api.database.pool.query<{ client_secret: string }>(
      'select client_secret from oidc_provider where id = $1',
      [created.data['id']],
    )
    t.match(rows[0]?.client_secret, /^v1:[0-9a-f]{8}:/)
  })

  t.test('client_secret and client_id are required on create when sign_in is on', async (t) => {
    for (const property of ['client_secret', 'client_id']) {
      t.same(await refused(signingIn({ [property]: undefined })), [property])
      t.same(await refused(signingIn({ [property]: '' })), [property])
    }
    t.equal((await client.post(PATH, issuing())).status, 201, 'but not without sign_in')
  })

  t.test('client_secret is kept when an update leaves it out', async (t) => {
    const { id } = await client.create(PATH, signingIn())
    const path = `${PATH}/${String(id)}`
    t.equal((await client.put(path, { display_name: 'Login', api_audience: 'x' })).status, 200)
    t.equal((await client.put(path, { client_secret: '' })).status, 400, 'it cannot be taken away')
    t.equal((await client.put(path, { sign_in: false, client_secret: '' })).status, 200)
    const on = await client.put(path, { sign_in: true })
    t.same(on.error?.details, { client_secret: 'is required, because sign_in is on' })
    t.equal((await client.put(path, { sign_in: true, client_secret: 'again' })).status, 200)
  })

  t.test('client_secret is required again by an update that changes issuer_url', async (t) => {
    const body = signingIn()
    const { id } = await client.create(PATH, body)
    const issuer_url = `${String(body['issuer_url'])}/`
    const without = await client.put(`${PATH}/${String(id)}`, { issuer_url })
    t.equal(without.status, 400)
    t.equal(without.error?.code, 'INVALID_INPUT')
    t.same(Object.keys(without.error?.details ?? {}), ['client_secret'])
    t.equal(
      (await client.put(`${PATH}/${String(id)}`, { issuer_url: body['issuer_url'] })).status,
      200,
      'the same',
    )
    const again = await client.put(`${PATH}/${String(id)}`, { issuer_url, client_secret: 'again' })
    t.equal(again.data['issuer_url'], issuer_url)
    const none = await client.create(PATH, issuing())
    const moved = await client.put(`${PATH}/${String(none['id'])}`, { issuer_url: 'https://moved.example' })
    t.equal(moved.status, 200, 'a provider without one has none to send')
  })

  t.test('issuer_url is https, or http for a loopback host, and is stored exactly', async (t) => {
    for (const issuer_url of [
      '',
      'login.example',
      '/login',
      'ftp://login.example',
      'http://login.example',
      'http://localhost.example',
      'http://127.0.0.1.example',
      'http://10.0.0.1',
      'https://user:password@login.example',
      'https://login.example/?realm=b2b',
      'https://login.example/#b2b',
      'https://login.example/ b2b',
      'https://login.example/\n',
      `https://login.example/${'x'.repeat(500)}`,
      5,
      null,
      undefined,
    ]) {
      t.same(await refused(issuing({ issuer_url })), ['issuer_url'])
    }
    for (const issuer_url of [
      'https://LOGIN.example/Realms/B2B/',
      'https://login.example:443',
      'http://localhost:8180/realms/b2b',
      'http://127.0.0.1:8180',
      'http://127.8.9.10',
      'http://[::1]:8180/',
    ]) {
      const created = await client.create(PATH, issuing({ issuer_url }))
      t.equal(created['issuer_url'], issuer_url)
    }
  })

  t.test('name has lower case letters, digits, _ and -', async (t) => {
    for (const name of ['', 'Corporate', 'a b', 'a/b', 'a'.repeat(65), undefined])
      t.same(await refused(issuing({ name })), ['name'])
  })

  t.test('a duplicate name or issuer_url is 409 CONFLICT, on create and on update', async (t) => {
    const first = issuing()
    await client.create(PATH, first)
    const second = await client.create(PATH, issuing())
    for (const property of ['name', 'issuer_url']) {
      const taken = { [property]: first[property] }
      const created = await client.post(PATH, issuing(taken))
      t.equal(created.status, 409, property)
      t.equal(created.error?.code, 'CONFLICT')
      t.equal((await client.put(`${PATH}/${String(second['id'])}`, taken)).error?.code, 'CONFLICT')
    }
    const body = issuing()
    const racing = await Promise.all(Array.from({ length: 5 }, () => client.post(PATH, body)))
    t.same(
      racing.map(({ status }) => status).toSorted((a, b) => a - b),
      [201, 409, 409, 409, 409],
    )
  })

  t.test('scopes are separated by spaces and include openid when sign_in is on', async (t) => {
    for (const scopes of [
      '',
      'profile email',
      'openidx',
      'openid  profile',
      ' openid',
      'openid\tprofile',
      'öpenid openid',
    ])
      t.same(await refused(signingIn({ scopes })), ['scopes'], scopes)
    t.equal((await client.post(PATH, signingIn({ scopes: 'profile openid' }))).status, 201)
    t.equal((await client.post(PATH, issuing({ scopes: '' }))).status, 201)
    t.same(await refused(issuing({ api_scopes: 'a  b' })), ['api_scopes'])
    t.equal((await client.create(PATH, issuing({ api_scopes: 'a:b c/d' })))['api_scopes'], 'a:b c/d')
  })

  t.test(
    'api_audience is required without a client id, unless tokens without audience are accepted',
    async (t) => {
      t.same(await refused(issuing({ api_audience: '' })), ['api_audience'])
      t.equal((await client.post(PATH, issuing({ api_audience: '', client_id: 'waybill' }))).status, 201)
      const accepting = { api_audience: '', accept_tokens_without_audience: true }
      t.equal((await client.post(PATH, issuing(accepting))).status, 201)
    },
  )

  t.test('an unknown property is refused, and a read-only one is ignored', async (t) => {
    t.same(await refused(issuing({ secret: 'x' })), ['secret'])
    const created = await client.create(PATH, issuing())
    const back = await client.put(`${PATH}/${String(created['id'])}`, created)
    t.equal(back.status, 200, 'what was read can be put back')
    const other = await client.put(`${PATH}/${String(created['id'])}`, { id: 999_999 })
    t.same(Object.keys(other.error?.details ?? {}), ['id'])
  })

  t.test('the list is under oidc_providers, by name, and pages', async (t) => {
    const { data } = await client.get(`${PATH}?limit=500`)
    const names = (data['oidc_providers'] as { name: string }[]).map(({ name }) => name)
    t.same(
      names,
      names.toSorted((a, b) => (a < b ? -1 : 1)),
    )
    t.equal(data['total'], names.length)
    const page = await client.get(`${PATH}?limit=1&offset=1`)
    t.match(page.data, { oidc_providers: [{ name: names[1] }], limit: 1, offset: 1 })
  })

  t.test('a provider that has accounts and users can be deleted', async (t) => {
    const body = issuing()
    const { id } = await client.create(PATH, body)
    const issuer = String(body['issuer_url'])
    const account = await client.create('/service-accounts', {
      name: 'orphan',
      kind: 'federated',
      oidc_issuer: issuer,
      oidc_subject: 'robot',
    })
    await api.identity.users.add('anna', { kind: 'identity', issuer, subject: 'anna' }, SYSTEM_CALLER)
    t.equal((await client.delete(`${PATH}/${String(id)}`)).status, 204)
    t.equal((await client.get(`${PATH}/${String(id)}`)).error?.code, 'NOT_FOUND')
    t.equal((await client.delete(`${PATH}/${String(id)}`)).error?.code, 'NOT_FOUND')
    const kept = await client.put(`/service-accounts/${String(account['id'])}`, {
      description: 'Still there',
    })
    t.equal(kept.status, 200)
    t.equal(kept.data['oidc_issuer'], issuer)
  })
})
