import { randomBytes } from 'node:crypto'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import type { Answer } from '../support/client.ts'
import { TestIssuer } from '../support/test-issuer.ts'

/**
 * A secret of its own goes into every write-only property and every credential; then every answer, every log line and
 * every column of the database is searched for all of them (specification, 2.1 rule 8 and 5.12).
 */

t.setTimeout(240_000)

/** Every secret that was sent, with where it was sent. */
const canaries = new Map<string, string>()

function canary(place: string): string {
  const secret = `canary${randomBytes(12).toString('hex')}`
  canaries.set(secret, place)
  return secret
}

/** How a secret could be written: as it is, encoded, or a part of it. */
function spellings(secret: string): readonly string[] {
  const bytes = Buffer.from(secret)
  return [
    secret,
    secret.slice(0, 12),
    secret.slice(-12),
    bytes.toString('hex'),
    // Whatever stands before it, one of three shifts is how base64 has it.
    ...[0, 1, 2].map((shift) =>
      bytes.subarray(shift, -3).toString('base64').replace(/.=*$/, '').slice(0, 16),
    ),
  ]
}

function leaksIn(text: string): readonly string[] {
  return [...canaries].flatMap(([secret, place]) =>
    spellings(secret).some((spelling) => text.includes(spelling)) ? [place] : [],
  )
}

async function columnsOf({ database }: TestApi): Promise<string> {
  const { rows: tables } = await database.pool.query<{ name: string }>(
    "select quote_ident(tablename) as name from pg_tables where schemaname = 'public'",
  )
  let text = ''
  for (const { name } of tables) {
    const { rows } = await database.pool.query<{ row: string }>(`select t::text as row from ${name} t`)
    text += rows.map(({ row }) => `${name} ${row}\n`).join('')
  }
  return text
}

t.test('no secret is in an answer, a log line or a column', async (t) => {
  const lines: string[] = []
  const log = pino(
    { level: 'trace' },
    new Writable({
      write: (chunk, _encoding, done) => {
        lines.push(String(chunk))
        done()
      },
    }),
  )
  const issuer = await TestIssuer.start(t)
  const api = await startApi(t, { log })
  const { client } = api
  const answers: string[] = []
  const seen = (answer: Answer): Answer => {
    answers.push(`${answer.status} ${JSON.stringify([...answer.headers])} ${answer.text}`)
    return answer
  }
  const headers = (place: string) => [{ name: 'X-Secret', value: canary(`${place} http_headers`) }]

  t.test('in a partner profile and a plugin configuration', async () => {
    const { id } = await client.create('/partners', { name: 'globex' })
    const profile = {
      business_partner_id: id,
      as2id: 'GLOBEX',
      endpoint: 'https://as2.globex.example/as2',
      encryption_algorithm: 'None',
      http_basic_username: 'waybill',
      http_basic_password: canary('profile http_basic_password'),
      http_headers: headers('profile'),
    }
    seen(await client.post('/as2/remote-profiles', { ...profile, endpoint: 'ftp://x' }))
    seen(await client.post('/as2/remote-profiles', profile))
    seen(await client.post('/as2/remote-profiles', profile))
    const path = `/as2/remote-profiles/${String(id)}`
    seen(await client.put(path, { http_basic_password: canary('profile update'), receipt_mode: 'Sometimes' }))
    seen(
      await client.put(path, {
        http_basic_password: canary('profile update'),
        http_headers: headers('update'),
      }),
    )
    seen(await client.put(path, { endpoint: 'https://other.example' }))
    seen(await client.get(path))
    seen(await client.get('/as2/remote-profiles'))

    const plugins = '/plugins/configs?type=http-poster'
    const poster = {
      name: 'poster',
      url: 'https://erp.example/in',
      http_basic_password: canary('poster http_basic_password'),
      http_headers: headers('poster'),
      signing_secret: canary('poster signing_secret'),
    }
    seen(await client.post(plugins, { ...poster, url: `https://x.example/?token=${canary('URL token')}` }))
    seen(await client.post(plugins, { ...poster, url: `https://u:${canary('URL userinfo')}@x.example/` }))
    seen(await client.post(plugins, { ...poster, password: canary('unknown property') }))
    seen(await client.post(plugins, { ...poster, http_headers: canary('headers of a wrong type') }))
    seen(await client.post(plugins, poster))
    seen(await client.post(plugins, poster))
    seen(await client.put('/plugins/configs/http-poster/poster', { url: 'https://other.example' }))
    seen(await client.get('/plugins/configs/http-poster/poster'))
  })

  t.test('in an upload of a certificate', async () => {
    const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'acme' })
    const body = privateKeyPem.replaceAll(/-----.*-----|\s/g, '')
    canaries.set(body.slice(100, 160), 'private_key')
    const parts = { certificate: certificatePem, private_key: privateKeyPem, password: canary('password') }
    seen(await client.ask('POST', '/certificates', { parts }))
    const described = { ...parts, description: 'signs' }
    const { id } = seen(await client.ask('POST', '/certificates', { parts: described })).data
    seen(await client.ask('POST', '/certificates', { parts: described }))
    seen(await client.get(`/certificates/${String(id)}`))
    seen(await client.get(`/certificates/${String(id)}/download`))
    seen(await client.get('/certificates'))
  })

  t.test('in an identity provider', async () => {
    const provider = {
      name: 'login',
      issuer_url: issuer.url,
      client_id: 'waybill',
      client_secret: canary('client_secret'),
      api_audience: 'waybill',
    }
    seen(await client.post('/oidc-providers', { ...provider, scopes: 'profile' }))
    const { id } = seen(await client.post('/oidc-providers', provider)).data
    seen(await client.post('/oidc-providers', provider))
    const path = `/oidc-providers/${String(id)}`
    seen(await client.put(path, { client_secret: canary('client_secret update'), issuer_url: 'http://x' }))
    seen(await client.put(path, { client_secret: canary('client_secret update') }))
    seen(await client.put(path, { client_secret: [canary('client_secret of a wrong type')] }))
    seen(await client.get(path))
    seen(await client.get('/oidc-providers'))
  })

  t.test('in a body that is no JSON', async () => {
    const type = { 'content-type': 'application/json' }
    const secret = canary('broken body')
    for (const raw of [
      `{"client_secret":"${secret}"x}`,
      `{"client_secret":${secret}}`,
      `{"client_secret":"${secret}`,
      `{"client_secret":"${secret}\n"}`,
      secret,
    ])
      seen(await client.ask('POST', '/oidc-providers', { raw, headers: type }))
  })

  t.test('in a credential', async () => {
    await client.create('/service-accounts', { name: 'erp' })
    const made = await client.create('/api-tokens', { service_account: 'erp', label: 'test' })
    const token = String(made['token'])
    canaries.set(token.slice(16), 'API token')
    const identity = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
    await client.create('/service-accounts', { name: 'robot', kind: 'federated', ...identity })
    const jwt = await issuer.token()
    canaries.set(jwt.slice(-60), 'signature of a JWT')
    const others = await issuer.token({
      claims: { sub: canary('subject of nobody'), nonce: canary('nonce') },
    })
    canaries.set(others.slice(-60), 'signature of a refused JWT')
    for (const credential of [
      `Bearer ${token}`,
      `Bearer ${token}x`,
      `Bearer ${jwt}`,
      `Bearer ${jwt}x`,
      `Bearer ${others}`,
      `Bearer wbl_${canary('no API token')}`,
      `Bearer ${canary('no token')}`,
      `Basic ${canary('basic credential')}`,
      canary('no scheme'),
    ]) {
      const authorization = { headers: { authorization: credential } }
      seen(await client.get('/organizations', authorization))
      seen(await client.get('/organizations/x', authorization))
    }
    seen(await client.get('/api-tokens'))
    const password = canary('password of a user')
    await api.identity.users.add('anna', { kind: 'password', password }, SYSTEM_CALLER)
    t.notOk(await api.identity.users.byPassword('anna', canary('wrong password')))
  })

  t.test('in a failure of the server', async () => {
    await api.database.pool.query('alter table oidc_provider rename column scopes to sc')
    const failed = await client.post('/oidc-providers', {
      name: 'other',
      issuer_url: 'https://other.example',
      client_id: 'waybill',
      client_secret: canary('client_secret of a failure'),
    })
    t.equal(seen(failed).status, 500)
    await api.database.pool.query('alter table oidc_provider rename column sc to scopes')
    await api.identity.lastUse.stop()
  })

  t.test('is found', async (t) => {
    t.ok(canaries.size > 25)
    t.ok(answers.length > 40)
    t.ok(lines.length > 40)
    t.same(answers.flatMap(leaksIn), [], 'in answers')
    t.same(lines.flatMap(leaksIn), [], 'in log lines')
    const columns = await columnsOf(api)
    t.match(columns, /oidc_provider .*login/)
    t.same(leaksIn(columns), [], 'in columns')
    const sent = [...canaries.keys()].join(' ')
    t.equal(leaksIn(sent).length, canaries.size, 'where they are, they are found')
    const shifted = (ahead: string) => Buffer.from(ahead + sent).toString('base64')
    for (const ahead of ['', 'x', 'xx'])
      t.equal(leaksIn(shifted(ahead)).length, canaries.size, 'in base64 too')
  })
})
