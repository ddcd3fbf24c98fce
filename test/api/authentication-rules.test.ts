import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { stallWaiting } from '../../storage/sql/maintain.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { ApiClient } from '../support/client.ts'
import { waybill } from '../support/command.ts'
import { createTestDatabase } from '../support/database.ts'
import { temporaryDirectory } from '../support/processes.ts'
import { TestIssuer } from '../support/test-issuer.ts'
import { Waybill } from '../support/waybill.ts'

/** Who may come in (specification, section 5): what a credential does not replace, what it allows, and on which node. */

t.setTimeout(240_000)

const API_PREFIX = '/api/v1'

async function tokenOf(api: TestApi, service_account: string): Promise<string> {
  const values = { service_account, label: 'test', expires_in_days: 1 }
  return (await api.identity.apiTokens.createWithAccount(values, SYSTEM_CALLER)).text
}

t.test(
  '5.11 with a credential, a body still needs its Content-Type, and an upload X-Requested-With',
  async (t) => {
    const api = await startApi(t, { build: 'release' })
    const authorization = `Bearer ${await tokenOf(api, 'ops')}`
    const client = ApiClient.bare(api.base, { authorization })
    const body = JSON.stringify({ name: 'acme' })
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
    ]) {
      const answer = await client.ask('POST', '/organizations', {
        raw: body,
        headers: { 'content-type': type },
      })
      t.equal(answer.error?.code, 'UNSUPPORTED_MEDIA_TYPE', type)
    }
    const deleted = await client.ask('DELETE', '/organizations/1')
    t.equal(deleted.error?.code, 'UNSUPPORTED_MEDIA_TYPE', 'a deletion too')
    const form = new FormData()
    form.set('certificate', 'x')
    const upload = await fetch(`${api.base}/certificates`, {
      method: 'POST',
      headers: { authorization },
      body: form,
    })
    t.match(await upload.json(), { error: { code: 'MISSING_HEADER' } })
  },
)

t.test('5.11 a page of another origin is let in by ALLOWED_ORIGINS alone', async (t) => {
  for (const allowedOrigins of [[], ['https://portal.example']]) {
    const api = await startApi(t, { build: 'release', allowedOrigins })
    const preflight = async (origin: string): Promise<string | null> => {
      const headers = {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      }
      const answer = await fetch(`${api.base}/organizations`, { method: 'OPTIONS', headers })
      return answer.headers.get('access-control-allow-origin')
    }
    t.equal(await preflight('https://evil.example'), null)
    t.equal(await preflight('https://portal.example'), allowedOrigins[0] ?? null)
  }
})

t.test('5.13 every caller may do everything, whoever it is', async (t) => {
  const api = await startApi(t, { build: 'release' })
  const issuer = await TestIssuer.start(t)
  const ops = ApiClient.bare(api.base, { authorization: `Bearer ${await tokenOf(api, 'ops')}` })
  const provider = { name: 'login', issuer_url: issuer.url, sign_in: false, api_audience: 'waybill' }
  await ops.create('/oidc-providers', provider)
  const identity = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
  await ops.create('/service-accounts', { name: 'robot', kind: 'federated', ...identity })
  const anna = { kind: 'identity', issuer: issuer.url, subject: 'anna' } as const
  await api.identity.users.add('anna', anna, SYSTEM_CALLER)
  const callers: Record<string, ApiClient> = { 'a local account': ops }
  for (const [name, sub] of Object.entries({ 'a federated account': 'robot', 'a user': 'anna' })) {
    const token = await issuer.token({ claims: { sub } })
    callers[name] = ApiClient.bare(api.base, { authorization: `Bearer ${token}` })
  }
  for (const [name, client] of Object.entries(callers)) {
    const { id } = await client.create('/service-accounts', { name: 'made' })
    const token = await client.create('/api-tokens', { service_account: 'made', label: 'made' })
    t.equal((await client.delete(`/api-tokens/${String(token['id'])}`)).status, 204, name)
    t.equal((await client.delete(`/service-accounts/${String(id)}`)).status, 204, name)
    t.equal((await client.put('/settings', {})).status, 200, name)
  }
})

t.test('6.1 the history of a message names the account that asked', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const headers = { authorization: `Bearer ${await tokenOf(api, 'erp')}`, 'content-type': 'application/json' }
  await client.create('/organizations', { name: 'acme' })
  await client.create('/partners', { name: 'globex' })
  const writer = { name: 'writer', base_directory: `${api.directory}/out` }
  await client.create('/plugins/configs?type=file-writer', writer)
  const parts = { from: 'acme', to: 'globex', target: 'writer', file: 'UNA' }
  const { data: message } = await client.ask('POST', '/messages', { parts })
  const id = String(message['id'])
  // Nobody takes the delivery: it is stalled, and asking again changes something.
  await api.database.pool.query(`update delivery set waiting_since = now() - interval '1 minute'`)
  await api.database.pool.query('delete from target_work')
  t.equal(await stallWaiting(api.database.pool, 1), 1)
  const again = await client.ask('POST', `/messages/${id}/redispatch`, { headers })
  t.equal(again.status, 200, again.text)
  const lines = again.data['history'] as { kind: string; text?: string }[]
  t.match(lines.find(({ kind }) => kind === 'redispatch_requested')?.text, /sa:erp/)
})

t.test(
  '5.7 what is revoked or disabled on one node is refused by another from the next request on',
  async (t) => {
    const database = await createTestDatabase(t)
    const issuer = await TestIssuer.start(t)
    const directory = await temporaryDirectory(t)
    const env = {
      DATABASE_URL: database.url,
      WAYBILL_BUILD: 'release',
      SECRET_KEY: 'a key that both nodes have',
    }
    const [first, second] = await Promise.all(
      ['first', 'second'].map((name) => Waybill.start({ directory: `${directory}/${name}`, env })),
    )
    if (first === undefined || second === undefined) throw new Error('A node is missing')
    t.teardown(async () => void (await Promise.all([first.stop(), second.stop()])))
    const run = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await waybill(args, { directory: `${directory}/first`, env })
      t.equal(code, 0, stderr)
      return stdout.trim()
    }
    const ops = await run('token', 'create', '--service-account', 'ops', '--label', 'first')
    const client = ApiClient.bare(first.url + API_PREFIX, { authorization: `Bearer ${ops}` })
    const other = async (token: string): Promise<number> => {
      const headers = { authorization: `Bearer ${token}` }
      return (await ApiClient.bare(second.url + API_PREFIX, headers).get('/organizations')).status
    }
    for (let round = 0; round < 10; round += 1) {
      const made = await client.create('/api-tokens', { service_account: 'ops', label: `round ${round}` })
      const token = String(made['token'])
      t.equal(await other(token), 200)
      t.equal((await client.delete(`/api-tokens/${String(made['id'])}`)).status, 204)
      t.equal(await other(token), 401)
    }
    await client.create('/oidc-providers', {
      name: 'login',
      issuer_url: issuer.url,
      sign_in: false,
      api_audience: 'waybill',
    })
    await run('user', 'add', 'anna', '--issuer', issuer.url, '--subject', 'anna')
    const annas = await issuer.token({ claims: { sub: 'anna' } })
    t.equal(await other(annas), 200)
    await run('user', 'disable', 'anna')
    t.equal(await other(annas), 401, 'a user that a command disabled')
    await run('user', 'enable', 'anna')
    t.equal(await other(annas), 200)
  },
)
