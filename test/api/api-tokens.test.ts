import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { query } from '../../storage/postgres/pool.ts'
import { startApi } from '../support/api.ts'
import { movableClock } from '../support/movable-clock.ts'
import { until } from '../support/processes.ts'

/** API tokens (specification, 2.10 and 3.5), and what a request with one is answered (5.2, 5.7, 5.12). */

t.setTimeout(240_000)

const PATH = '/api-tokens'
const DAY_MS = 86_400_000

async function started(t: Test) {
  const clock = movableClock()
  const api = await startApi(t, { clock })
  const { client } = api
  await client.create('/service-accounts', { name: 'erp' })
  await client.create('/service-accounts', { name: 'off' })
  const ask = (token: unknown) =>
    client.get('/organizations', { headers: { authorization: `Bearer ${String(token)}` } })
  const listed = async (id: unknown) => {
    const { data } = await client.get(`${PATH}?limit=500`)
    return (data['api_tokens'] as Record<string, unknown>[]).find((token) => token['id'] === id)
  }
  const make = (more: object = {}) => client.create(PATH, { service_account: 'erp', label: 'test', ...more })
  return { api, clock, client, ask, listed, make }
}

t.test('2.10 POST /api-tokens', async (t) => {
  const { api, client, ask, listed, make } = await started(t)

  t.test('5.12 answers 201 with the token, the only answer that ever carries it', async (t) => {
    const { token, ...rest } = await make({ label: 'nightly export' })
    t.match(token, /^wbl_[0-9A-Za-z]{12}[0-9A-Za-z]{40,}$/)
    t.match(rest, {
      id: Number,
      public_id: String(token).slice(4, 16),
      service_account: 'erp',
      label: 'nightly export',
      state: 'active',
      last_used_at: null,
      revoked_at: null,
    })
    const secret = String(token).slice(16)
    t.notMatch((await client.get(PATH)).text, secret)
    t.same(await listed(rest['id']), rest, 'an item of the list has the same shape otherwise')
    const { rows } = await api.database.pool.query('select * from api_token where id = $1', [rest['id']])
    t.notMatch(JSON.stringify(rows), secret)
    const stored = (rows[0] as { token_sha256: Buffer }).token_sha256
    t.same(stored, createHash('sha256').update(String(token)).digest(), 'only a SHA-256 is stored')
    t.equal((await ask(token)).status, 200)
  })

  t.test('the token expires in 90 days, or in those that are asked for, 1 to 365', async (t) => {
    const days = (made: Readonly<Record<string, unknown>>) =>
      (Date.parse(String(made['expires_at'])) - Date.parse(String(made['created_at']))) / DAY_MS
    t.equal(days(await make()), 90)
    t.equal(days(await make({ expires_in_days: 1 })), 1)
    t.equal(days(await make({ expires_in_days: 365 })), 365)
  })

  t.test('what is wrong is refused on its property', async (t) => {
    await client.create('/oidc-providers', {
      name: 'login',
      issuer_url: 'https://login.example',
      sign_in: false,
      api_audience: 'waybill',
    })
    const robot = {
      name: 'robot',
      kind: 'federated',
      oidc_issuer: 'https://login.example',
      oidc_subject: 'r',
    }
    await client.create('/service-accounts', robot)
    await api.database.pool.query("update service_account set enabled = false where name = 'off'")
    const wrong: [object, string[]][] = [
      [{ service_account: 'nobody' }, ['service_account']],
      [{ service_account: 'robot' }, ['service_account']],
      [{ service_account: 'off' }, ['service_account']],
      [{ service_account: '' }, ['service_account']],
      [{ service_account: undefined }, ['service_account']],
      [{ service_account: 7 }, ['service_account']],
      [{ label: '' }, ['label']],
      [{ label: undefined }, ['label']],
      [{ label: 'x'.repeat(65) }, ['label']],
      [{ label: 'two\nlines' }, ['label']],
      [{ label: 'a\u0085b' }, ['label']],
      [{ label: 'tab\t' }, ['label']],
      [{ label: 'a\u0000b' }, ['label']],
      [{ expires_in_days: 0 }, ['expires_in_days']],
      [{ expires_in_days: 366 }, ['expires_in_days']],
      [{ expires_in_days: 1.5 }, ['expires_in_days']],
      [{ expires_in_days: '30' }, ['expires_in_days']],
      [{ expires_in_days: null }, ['expires_in_days']],
      [{ expires: 30 }, ['expires']],
      [{ service_account: 'nobody', label: '' }, ['label', 'service_account']],
    ]
    for (const [body, properties] of wrong) {
      const answer = await client.post(PATH, { service_account: 'erp', label: 'test', ...body })
      t.equal(answer.status, 400, JSON.stringify(body))
      t.equal(answer.error?.code, 'INVALID_INPUT')
      t.same(Object.keys(answer.error?.details ?? {}).toSorted(), properties)
    }
  })

  t.test('a label has up to 64 characters of any kind but control characters', async (t) => {
    for (const label of ['x'.repeat(64), '🚚'.repeat(64), ' ', 'Straße "1" <x>'])
      t.equal((await make({ label }))['label'], label)
  })
})

t.test('2.10 GET /api-tokens has the tokens of every local account, newest first', async (t) => {
  const { client, make } = await started(t)
  await client.create('/service-accounts', { name: 'shop' })
  const ids = [(await make())['id'], (await make({ service_account: 'shop' }))['id'], (await make())['id']]
  const { data } = await client.get(PATH)
  t.match(data, { total: 3, limit: 20, offset: 0 })
  t.same(
    (data['api_tokens'] as { id: number }[]).map(({ id }) => id),
    ids.toReversed(),
  )
  t.equal((await client.get(`${PATH}?limit=1&offset=2`)).data['total'], 3)
  t.equal((await client.get(`${PATH}?limit=0`)).status, 400)
})

t.test('3.5 and 5.7 a token is active until it expires, and TOKEN_EXPIRED from then on', async (t) => {
  const { clock, ask, listed, make } = await started(t)
  const { id, token } = await make({ expires_in_days: 1 })
  t.equal((await ask(token)).status, 200)
  clock.advance(DAY_MS - 60_000)
  t.equal((await ask(token)).status, 200)
  t.equal((await listed(id))?.['state'], 'active')
  clock.advance(60_000)
  const expired = await ask(token)
  t.equal(expired.status, 401)
  t.equal(expired.error?.code, 'TOKEN_EXPIRED')
  t.equal((await listed(id))?.['state'], 'expired')
})

t.test('3.5 DELETE moves a token to revoked, which counts from the next request', async (t) => {
  const { client, ask, listed, make } = await started(t)
  const { id, token } = await make()
  t.equal((await ask(token)).status, 200)
  const answer = await client.delete(`${PATH}/${String(id)}`)
  t.equal(answer.status, 204)
  t.equal(answer.text, '')
  t.equal((await ask(token)).error?.code, 'INVALID_TOKEN')
  const revoked = await listed(id)
  t.equal(revoked?.['state'], 'revoked')
  t.equal((await client.delete(`${PATH}/${String(id)}`)).status, 204, 'again')
  t.same(await listed(id), revoked, 'changes nothing')
  t.equal((await client.delete(`${PATH}/999999`)).error?.code, 'NOT_FOUND')
  t.same(Object.keys((await client.delete(`${PATH}/x`)).error?.details ?? {}), ['id'])
})

t.test('3.5 a token that is both revoked and expired is INVALID_TOKEN', async (t) => {
  const { clock, client, ask, listed, make } = await started(t)
  const { id, token } = await make({ expires_in_days: 1 })
  await client.delete(`${PATH}/${String(id)}`)
  clock.advance(2 * DAY_MS)
  t.equal((await ask(token)).error?.code, 'INVALID_TOKEN')
  t.equal((await listed(id))?.['state'], 'revoked')
})

t.test('3.5 a revoked token is never accepted, while requests with it keep coming', async (t) => {
  const { client, ask, make } = await started(t)
  const tokens = await Promise.all(Array.from({ length: 5 }, () => make()))
  for (const { id, token } of tokens) {
    let isRevoked = false
    const requests = Array.from({ length: 8 }, async () => {
      for (let round = 0; round < 12; round += 1) {
        const wasRevoked = isRevoked
        const { status } = await ask(token)
        if (wasRevoked) t.equal(status, 401, 'it was asked after the revocation was answered')
      }
    })
    const revoking = async (): Promise<void> => {
      await client.delete(`${PATH}/${String(id)}`)
      isRevoked = true
    }
    await Promise.all([...requests, revoking()])
    t.equal((await ask(token)).status, 401)
  }
})

t.test('2.10 a token is never changed', async (t) => {
  const { client, make } = await started(t)
  const { id } = await make()
  for (const method of ['PUT', 'PATCH', 'GET']) {
    const answer = await client.ask(method, `${PATH}/${String(id)}`, { body: { label: 'other' } })
    t.equal(answer.status, 405, method)
    t.equal(answer.headers.get('allow'), 'DELETE')
  }
})

t.test(
  '5.7 an API token that is unknown, revoked, or whose account is disabled is INVALID_TOKEN',
  async (t) => {
    const { client, ask, make } = await started(t)
    const { token: text } = await make()
    const token = String(text)
    const last = token.at(-1) === 'A' ? 'B' : 'A'
    const other = token[20] === 'A' ? 'B' : 'A'
    const wrong: Record<string, string> = {
      'an unknown public id': `wbl_${'x'.repeat(12)}${token.slice(16)}`,
      'a wrong checksum': token.slice(0, -1) + last,
      'a wrong secret': token.slice(0, 20) + other + token.slice(21),
      'a secret cut short': token.slice(0, -1),
      'a secret with more': `${token}A`,
      'the prefix alone': 'wbl_',
      'the public part alone': token.slice(0, 16),
      'another prefix': `abc_${token.slice(4)}`,
      'the prefix in capitals': `WBL_${token.slice(4)}`,
      'one that was never made': `wbl_${'0'.repeat(58)}`,
    }
    const same = { code: 'INVALID_TOKEN', message: 'The token is not valid' }
    for (const [name, given] of Object.entries(wrong)) {
      const answer = await ask(given)
      t.equal(answer.status, 401, name)
      t.same(answer.error, same)
    }
    const { data } = await client.get('/service-accounts')
    const [{ id } = { id: 0 }] = data['service_accounts'] as { id: number }[]
    t.equal((await ask(token)).status, 200)
    await client.put(`/service-accounts/${String(id)}`, { enabled: false })
    t.same((await ask(token)).error, same, 'a disabled account')
    await client.put(`/service-accounts/${String(id)}`, { enabled: true })
    t.equal((await ask(token)).status, 200, 'and enabled again')
  },
)

t.test('2.10 last_used_at', async (t) => {
  const { api, clock, client, ask, listed, make } = await started(t)
  const { pool } = api.database
  const { id, token } = await make()
  const stored = async () => {
    const text = 'select last_used_at as at from api_token where id = $1'
    const [row] = await query<{ at: Date | null }>(pool, text, [id])
    return row?.at ?? null
  }
  const account = async () => (await client.get('/service-accounts')).data['service_accounts'] as object[]
  t.equal(await stored(), null)
  t.match(await account(), [{ name: 'erp', last_used_at: null }])

  await ask(`${String(token)}x`)
  t.equal((await listed(id))?.['last_used_at'], null, 'a refused token is not used')
  const before = Date.now()
  await ask(token)
  const used = Date.parse(String((await listed(id))?.['last_used_at']))
  t.ok(used >= before && used <= Date.now(), 'is told at once')
  t.match(await account(), [{ name: 'erp', last_used_at: String }])
  await until(async () => (await stored()) !== null)

  const first = await stored()
  for (let request = 0; request < 20; request += 1) await ask(token)
  t.ok(Date.parse(String((await listed(id))?.['last_used_at'])) > (first?.getTime() ?? 0))
  t.same(await stored(), first, 'and is stored at most once a minute')
  clock.advance(60_000)
  await ask(token)
  await until(async () => (await stored())?.getTime() !== first?.getTime())
  const second = await stored()
  await ask(token)
  await api.identity.lastUse.stop()
  t.ok((await stored())?.getTime() !== second?.getTime(), 'the rest is stored at the end')
})
