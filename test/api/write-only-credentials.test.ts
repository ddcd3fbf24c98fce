import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'
import { Canaries, columnsOf } from '../support/canaries.ts'
import { makeCertificate } from '../support/certificates.ts'
import type { Answer } from '../support/client.ts'
import { makePkcs12 } from '../support/pkcs12.ts'
import { TestIssuer } from '../support/test-issuer.ts'

/**
 * Secrets that come in otherwise than as a write-only property: keys and passwords of certificate files, credentials of
 * requests, passwords of users, bodies that cannot be read (specification, 2.1 rule 8, 5.10 and 5.12).
 */

t.setTimeout(240_000)

/** Parts of forms that hold no secret. Whoever adds another part says here, or in a test below, which it is. */
const OPEN_PARTS = new Set(['certificate', 'description', 'from', 'to', 'file', 'target'])
const SECRET_PARTS = new Set(['private_key', 'password'])

const canaries = new Canaries()
const api = await startApi(t, { log: canaries.log })
const issuer = await TestIssuer.start(t)
const { client } = api
const seen = (answer: Answer): Answer => canaries.seen(answer)

t.test('every part of a form is known as a secret or as none', async (t) => {
  const parts = client.operations().flatMap(({ upload, operation }) => {
    const form = operation.requestBody?.content['multipart/form-data']?.schema
    return upload ? Object.keys(form?.properties ?? {}) : []
  })
  t.same(new Set(parts), new Set([...OPEN_PARTS, ...SECRET_PARTS]))
})

t.test('private_key and password of an uploaded certificate', async (t) => {
  const { certificatePem, privateKey } = makeCertificate({ commonName: 'acme' })
  const der = privateKey.export({ type: 'pkcs8', format: 'der' })
  canaries.add(der.subarray(300, 345).toString('base64'), 'private key')
  canaries.add(der.subarray(300, 345).toString('hex'), 'private key in hexadecimal')
  const password = canaries.make('password of a key')
  const sealed = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: password } as const
  const private_key = privateKey.export(sealed).toString()
  const upload = async (parts: Record<string, string | Uint8Array<ArrayBuffer>>) =>
    seen(await client.ask('POST', '/certificates', { parts }))
  const good = { certificate: certificatePem, private_key, password }
  await upload({ ...good, password: canaries.make('wrong password') })
  await upload({ ...good, private_key: canaries.make('no key') })
  await upload({ ...good, certificate: canaries.make('no certificate') })
  await upload({ ...good, secret: canaries.make('unknown part') })
  await upload({ ...good, certificate: makeCertificate({ commonName: 'other' }).certificatePem })
  const found = await upload(good)
  t.equal(found.status, 200, 'what was found waits to be imported')
  const described = { ...good, description: 'signs' }
  const { id } = (await upload(described)).data
  t.equal((await upload(described)).status, 409)
  const other = makePkcs12(makeCertificate({ commonName: 'globex' }), password)
  t.equal((await upload({ certificate: other, password })).status, 200)
  for (const path of ['', `/${String(id)}`, `/${String(id)}/download`]) {
    seen(await client.get(`/certificates${path}`))
  }
})

t.test('a body that cannot be read', async (t) => {
  const type = { 'content-type': 'application/json' }
  const secret = canaries.make('broken body')
  const broken = [
    `{"client_secret":"${secret}"x}`,
    `{"client_secret":${secret}}`,
    `{"client_secret":"${secret}`,
    `{"client_secret":"${secret}\n"}`,
    `[{"client_secret":"${secret}"}]`,
    `"${secret}"`,
    secret,
  ]
  for (const { method, path, upload } of client.operations()) {
    if (method === 'GET' || upload) continue
    const place = path.replace('{type}', 'http-poster').replaceAll(/\{\w+\}/g, '1')
    for (const raw of broken) seen(await client.ask(method, place, { raw, headers: type }))
    const other = { 'content-type': `text/${secret}` }
    t.equal(seen(await client.ask(method, place, { raw: secret, headers: other })).status, 415)
  }
})

t.test('the credential of a request', async () => {
  await client.create('/service-accounts', { name: 'erp' })
  const made = await client.create('/api-tokens', { service_account: 'erp', label: 'test' })
  const token = String(made['token'])
  canaries.add(token.slice(16), 'API token')
  const old = await client.create('/api-tokens', { service_account: 'erp', label: 'revoked' })
  canaries.add(String(old['token']).slice(16), 'revoked API token')
  seen(await client.delete(`/api-tokens/${String(old['id'])}`))
  const provider = { name: 'login', issuer_url: issuer.url, sign_in: false, api_audience: 'waybill' }
  seen(await client.post('/oidc-providers', provider))
  const identity = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
  await client.create('/service-accounts', { name: 'robot', kind: 'federated', ...identity })
  const jwt = await issuer.token()
  canaries.add(jwt.slice(-60), 'signature of a JWT')
  const claims = { sub: canaries.make('subject of nobody'), nonce: canaries.make('nonce') }
  const others = await issuer.token({ claims })
  canaries.add(others.slice(-60), 'signature of a refused JWT')
  const elsewhere = { iss: `https://${canaries.make('unknown issuer')}.example` }
  for (const credential of [
    `Bearer ${token}`,
    `Bearer ${token}x`,
    `Bearer ${String(old['token'])}`,
    `Bearer ${jwt}`,
    `Bearer ${jwt}x`,
    `Bearer ${others}`,
    `Bearer ${await issuer.token({ claims: elsewhere })}`,
    `Bearer ${await issuer.token({ header: { kid: canaries.make('unknown key id') } })}`,
    `Bearer ${await issuer.token({ header: { typ: canaries.make('type') } })}`,
    `Bearer ${await issuer.token({ claims: { aud: canaries.make('audience') } })}`,
    `Bearer wbl_${canaries.make('no API token')}`,
    `Bearer ${canaries.make('no token')}`,
    `Bearer ${canaries.make('two')} ${canaries.make('parts')}`,
    `Basic ${canaries.make('basic credential')}`,
    canaries.make('no scheme'),
  ]) {
    const headers = { authorization: credential }
    for (const path of ['/organizations', '/organizations/x', '/nothing'])
      seen(await client.get(path, { headers }))
    seen(await client.ask('POST', '/organizations', { raw: 'x', headers }))
  }
  const cookie = { cookie: `session=${canaries.make('cookie')}` }
  seen(await client.get('/organizations', { headers: cookie }))
})

t.test('the password of a user', async (t) => {
  const { users } = api.identity
  const password = canaries.make('password of a user')
  const failure = async (work: Promise<unknown>): Promise<void> => {
    const thrown = await work.then(
      () => null,
      (reason: unknown) => reason,
    )
    canaries.answers.push(`${String(thrown)} ${JSON.stringify(thrown)}`)
  }
  await users.add('anna', { kind: 'password', password }, SYSTEM_CALLER)
  await failure(users.add('anna', { kind: 'password', password }, SYSTEM_CALLER))
  await failure(users.add('bert', { kind: 'password', password: `${password}\n` }, SYSTEM_CALLER))
  await failure(users.add('bert', { kind: 'password', password: password.repeat(20) }, SYSTEM_CALLER))
  await failure(users.setPassword('nobody', password, SYSTEM_CALLER))
  await users.setPassword('anna', canaries.make('new password'), SYSTEM_CALLER)
  t.notOk(await users.byPassword('anna', canaries.make('wrong password of a user')))
})

t.test('a failure of the server while a token is made', async (t) => {
  const { pool } = api.database
  await pool.query('alter table api_token rename column label to was_label')
  const failed = await client.post('/api-tokens', { service_account: 'erp', label: 'failed' })
  t.equal(seen(failed).status, 500)
  await pool.query('alter table api_token rename column was_label to label')
})

t.test('none of them is in an answer, a log line or a column', async (t) => {
  for (const { method, path } of client.operations()) {
    if (method === 'GET' && !path.includes('{') && path !== '/events') seen(await client.get(path))
  }
  await api.identity.lastUse.stop()
  t.ok(canaries.size > 25)
  t.ok(canaries.answers.length > 200)
  t.ok(canaries.lines.length > 200)
  t.same(canaries.missed(), [], 'where they are, they are found')
  t.same(canaries.answers.flatMap(leaks), [], 'in answers')
  t.same(canaries.lines.flatMap(leaks), [], 'in log lines')
  const columns = await columnsOf(api.database.pool)
  t.match(columns, /user_account .*anna/)
  t.same(leaks(columns), [], 'in columns')
})

function leaks(text: string): readonly string[] {
  return canaries.leaksIn(text)
}
