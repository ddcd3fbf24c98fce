import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'

/** Service accounts (specification, 2.9). */

t.setTimeout(240_000)

const PATH = '/service-accounts'
const ISSUER = 'https://login.example'

t.test('2.9 service accounts', async (t) => {
  const api = await startApi(t)
  const { client } = api
  await client.create('/oidc-providers', {
    name: 'login',
    issuer_url: ISSUER,
    sign_in: false,
    api_audience: 'waybill',
  })
  const federated = (name: string, oidc_subject = name) => ({
    name,
    kind: 'federated',
    oidc_issuer: ISSUER,
    oidc_subject,
  })
  const refused = async (body: unknown) => {
    const answer = await client.post(PATH, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.equal(answer.error?.code, 'INVALID_INPUT')
    return Object.keys(answer.error?.details ?? {}).toSorted()
  }

  t.test('a local account has empty strings for an identity', async (t) => {
    const created = await client.post(PATH, { name: 'erp' })
    t.equal(created.status, 201)
    t.match(created.data, {
      id: Number,
      name: 'erp',
      description: '',
      kind: 'local',
      enabled: true,
      oidc_issuer: '',
      oidc_subject: '',
      last_used_at: null,
      created_at: String,
      updated_at: String,
    })
    t.same((await client.get(`${PATH}/${String(created.data['id'])}`)).data, created.data)
    t.same(await refused({ name: 'x', oidc_issuer: ISSUER, oidc_subject: 'x' }), [
      'oidc_issuer',
      'oidc_subject',
    ])
    t.same(await refused({ name: 'x', oidc_subject: 'x' }), ['oidc_subject'])
  })

  t.test('a federated account has an issuer of a stored provider and a subject', async (t) => {
    const created = await client.post(PATH, federated('robot'))
    t.equal(created.status, 201)
    t.match(created.data, federated('robot'))
    t.same(await refused({ name: 'x', kind: 'federated' }), ['oidc_issuer', 'oidc_subject'])
    t.same(await refused({ ...federated('x'), oidc_subject: '' }), ['oidc_subject'])
    t.same(await refused({ ...federated('x'), oidc_subject: 'a\tb' }), ['oidc_subject'])
    t.same(await refused({ ...federated('x'), oidc_subject: 'x'.repeat(256) }), ['oidc_subject'])
    for (const oidc_issuer of [`${ISSUER}/`, ISSUER.toUpperCase(), 'https://other.example', 'x'])
      t.same(await refused({ ...federated('x'), oidc_issuer }), ['oidc_issuer'])
    const both = { ...federated('NOT VALID'), oidc_issuer: 'https://other.example' }
    t.same(await refused(both), ['name', 'oidc_issuer'], 'with all else that is wrong')
  })

  t.test('name has lower case letters, digits, _ and -; kind is local or federated', async (t) => {
    for (const name of ['', 'Erp', 'sa:erp', 'a b', 'a'.repeat(65), undefined, 7])
      t.same(await refused({ name }), ['name'])
    t.same(await refused({ name: 'x', kind: 'remote' }), ['kind'])
    t.same(await refused({ name: 'x', last_used: null }), ['last_used'], 'an unknown property')
  })

  t.test('name and kind cannot change', async (t) => {
    const { id } = await client.create(PATH, { name: 'fixed' })
    const change = async (body: object) => {
      const answer = await client.put(`${PATH}/${String(id)}`, body)
      return [answer.status, answer.error?.details]
    }
    t.same(await change({ name: 'other' }), [400, { name: 'cannot change' }])
    t.same(await change({ ...federated('fixed') }), [400, { kind: 'cannot change' }])
    t.same(await change({ kind: 'federated', name: 'NOT VALID' }), [
      400,
      { name: 'cannot change', kind: 'cannot change' },
    ])
    t.same(await change({ name: 'fixed', kind: 'local', description: 'The same' }), [200, undefined])
    await t.rejects(api.database.pool.query("update service_account set kind = 'federated'"), {
      message: /do not change/,
    })
  })

  t.test('a taken name or identity is 409 CONFLICT', async (t) => {
    const conflict = async (method: 'POST' | 'PUT', path: string, body: object) => {
      const answer = await client.ask(method, path, { body })
      t.equal(answer.status, 409, JSON.stringify(body))
      t.equal(answer.error?.code, 'CONFLICT')
    }
    await client.create(PATH, { name: 'taken' })
    await conflict('POST', PATH, { name: 'taken' })
    await conflict('POST', PATH, federated('taken', 'other'))
    await client.create(PATH, federated('one', 'subject one'))
    await conflict('POST', PATH, federated('two', 'subject one'))
    const two = await client.create(PATH, federated('two', 'subject two'))
    await conflict('PUT', `${PATH}/${String(two['id'])}`, { oidc_subject: 'subject one' })
    const anna = { kind: 'identity', issuer: ISSUER, subject: 'anna' } as const
    await api.identity.users.add('anna', anna, SYSTEM_CALLER)
    await conflict('POST', PATH, federated('three', 'anna'))
    const racing = await Promise.all(
      Array.from({ length: 5 }, (_, n) => client.post(PATH, federated(`racing-${n}`, 'racing'))),
    )
    t.same(
      racing.map(({ status }) => status).toSorted((a, b) => a - b),
      [201, 409, 409, 409, 409],
    )
  })

  t.test('the identity of a federated account can change', async (t) => {
    const { id } = await client.create(PATH, federated('moving'))
    const moved = await client.put(`${PATH}/${String(id)}`, { oidc_subject: 'moved' })
    t.equal(moved.status, 200)
    t.equal(moved.data['oidc_subject'], 'moved')
    const unknown = await client.put(`${PATH}/${String(id)}`, { oidc_issuer: 'https://other.example' })
    t.same(Object.keys(unknown.error?.details ?? {}), ['oidc_issuer'])
    const back = await client.put(`${PATH}/${String(id)}`, moved.data)
    t.equal(back.status, 200, 'what was read can be put back')
  })

  t.test('the list is under service_accounts, ordered by name', async (t) => {
    await client.create(PATH, { name: '0-first' })
    const { data } = await client.get(`${PATH}?limit=500`)
    const names = (data['service_accounts'] as { name: string }[]).map(({ name }) => name)
    t.equal(names[0], '0-first')
    t.same(
      names,
      names.toSorted((a, b) => (a < b ? -1 : 1)),
    )
    t.equal(data['total'], names.length)
  })

  t.test('an unknown account is 404, and a path id that is no whole number is refused on id', async (t) => {
    for (const method of ['GET', 'PUT', 'DELETE'] as const) {
      const asking = { body: {} }
      t.equal((await client.ask(method, `${PATH}/999999`, asking)).error?.code, 'NOT_FOUND', method)
      const answer = await client.ask(method, `${PATH}/x`, asking)
      t.same(Object.keys(answer.error?.details ?? {}), ['id'])
    }
  })

  t.test("DELETE revokes the account's tokens and removes it", async (t) => {
    const account = await client.create(PATH, { name: 'leaving' })
    const tokens = await Promise.all(
      ['one', 'two'].map((label) => client.create('/api-tokens', { service_account: 'leaving', label })),
    )
    const ask = (token: unknown) =>
      client.get('/organizations', { headers: { authorization: `Bearer ${String(token)}` } })
    for (const { token } of tokens) t.equal((await ask(token)).status, 200)
    t.equal((await client.delete(`${PATH}/${String(account['id'])}`)).status, 204)
    for (const { token } of tokens) t.equal((await ask(token)).error?.code, 'INVALID_TOKEN')
    t.equal((await client.get(`${PATH}/${String(account['id'])}`)).status, 404)
    const { data } = await client.get('/api-tokens?limit=500')
    const states = (data['api_tokens'] as { service_account: string; state: string; revoked_at: unknown }[])
      .filter(({ service_account }) => service_account === 'leaving')
      .map(({ state, revoked_at }) => [state, typeof revoked_at])
    t.same(states, [
      ['revoked', 'string'],
      ['revoked', 'string'],
    ])
    await client.create(PATH, { name: 'leaving' })
    for (const { token } of tokens) t.equal((await ask(token)).status, 401, 'a namesake does not revive them')
  })
})
