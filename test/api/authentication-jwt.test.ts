import { createHmac, createPublicKey } from 'node:crypto'
import t, { type Test } from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { movableClock, type MovableClock } from '../support/movable-clock.ts'
import { makeKey, TestIssuer, type TokenParts } from '../support/test-issuer.ts'

/** Tokens of identity providers (specification, 5.2 to 5.6): what is accepted, and all that is refused alike. */

t.setTimeout(240_000)

interface Case {
  readonly api: TestApi
  /** Of the API alone: the tokens are made by the time of the system. */
  readonly clock: MovableClock
  readonly issuer: TestIssuer
  /** The status of a request with this token; a refusal must be the one of all. */
  readonly status: (token: string) => Promise<number>
}

/** A provider whose tokens for the audience `waybill` and the subject `robot` are those of an account. */
async function registered(t: Test, provider: object = {}): Promise<Case> {
  const issuer = await TestIssuer.start(t)
  const clock = movableClock()
  const api = await startApi(t, { clock })
  const { client } = api
  const usual = { name: 'issuer', issuer_url: issuer.url, sign_in: false, api_audience: 'waybill' }
  await client.create('/oidc-providers', { ...usual, ...provider })
  const identity = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
  await client.create('/service-accounts', { name: 'robot', kind: 'federated', ...identity })
  const status = async (token: string): Promise<number> => {
    const answer = await client.get('/organizations', { headers: { authorization: `Bearer ${token}` } })
    if (answer.status !== 200) {
      t.same(answer.error, { code: 'INVALID_TOKEN', message: 'The token is not valid' })
    }
    return answer.status
  }
  return { api, clock, issuer, status }
}

const seconds = (ahead: number) => Math.floor(Date.now() / 1000) + ahead

const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]

t.test('5.4 a token is accepted with a signature of any named algorithm', async (t) => {
  const { issuer, status } = await registered(t)
  issuer.keys.push(...(await Promise.all(ALGORITHMS.map((alg) => makeKey(alg)))))
  for (const key of issuer.keys) t.equal(await status(await issuer.token({ key })), 200, key.alg)
})

t.test('5.4 what a token may say and is accepted with', async (t) => {
  const { issuer, status } = await registered(t, { api_scopes: 'write read' })
  const good: Record<string, TokenParts> = {
    'scopes in scope': { claims: { scope: 'read openid write' } },
    'scopes in scope as a list': { claims: { scope: ['write', 'read'] } },
    'scopes in scp': { claims: { scp: 'write read' } },
    'scopes in scp as a list': { claims: { scp: ['read', 'write', 'more'] } },
    'scopes in both': { claims: { scope: 'read', scp: ['write'] } },
    'the audience in a list': { claims: { scope: 'read write', aud: ['other', 'waybill'] } },
    'a time from which it counts that has come': { claims: { scope: 'read write', nbf: seconds(-1) } },
    'the type of access tokens': { claims: { scope: 'read write' }, header: { typ: 'at+jwt' } },
    'the type JWT': { claims: { scope: 'read write' }, header: { typ: 'JWT' } },
    'the markers of a Keycloak access token': { claims: { scope: 'read write', typ: 'Bearer' } },
  }
  for (const [name, parts] of Object.entries(good))
    t.equal(await status(await issuer.token(parts)), 200, name)
  const bad: Record<string, NonNullable<TokenParts['claims']>> = {
    'no scope': {},
    'one of two scopes': { scope: 'read' },
    'scopes that only begin alike': { scope: 'reader writer' },
    'scopes in another case': { scope: 'READ WRITE' },
    'a scope that is no text': { scope: 7 },
  }
  for (const [name, claims] of Object.entries(bad)) {
    t.equal(await status(await issuer.token({ claims })), 401, name)
  }
})

t.test('5.4 and 5.10 a token that fails validation is INVALID_TOKEN, whatever is wrong', async (t) => {
  const { issuer, status } = await registered(t)
  const stranger = await makeKey('RS256', issuer.key.kid)
  const claims: Record<string, object> = {
    'another issuer': { iss: 'https://elsewhere.example' },
    'the issuer with a final slash': { iss: `${issuer.url}/` },
    'the issuer in capitals': { iss: issuer.url.toUpperCase() },
    'no issuer': { iss: undefined },
    'an issuer that is no text': { iss: 5 },
    'an issuer with the character NUL': { iss: `${issuer.url}\0` },
    'a subject with the character NUL': { sub: 'robot\0' },
    'half a surrogate pair for a subject': { sub: '\ud800' },
    'no subject': { sub: undefined },
    'an empty subject': { sub: '' },
    'a subject that nobody is registered for': { sub: 'Robot' },
    'another audience': { aud: 'someone else' },
    'an audience that only begins alike': { aud: 'waybill2' },
    'a list of other audiences': { aud: ['a', 'b'] },
    'no audience': { aud: undefined },
    'an empty audience': { aud: '' },
    'an empty list of audiences': { aud: [] },
    'expired by a second': { exp: seconds(-1) },
    'expiring at this moment': { exp: seconds(0) },
    'no expiry': { exp: undefined },
    'an expiry that is no number': { exp: 'tomorrow' },
    'not yet valid': { nbf: seconds(60) },
    'a start that is no number': { nbf: 'yesterday' },
    'the nonce of an ID token': { nonce: 'n' },
    'the at_hash of an ID token': { at_hash: 'h' },
    'the c_hash of an ID token': { c_hash: 'h' },
    'the events of a logout token': { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } },
    'the type ID in the payload': { typ: 'ID' },
    'the use id in the payload': { token_use: 'id' },
    'a key of its holder that it is bound to': { cnf: { jkt: 'h' } },
  }
  for (const [name, wrong] of Object.entries(claims)) {
    t.equal(await status(await issuer.token({ claims: { ...wrong } })), 401, name)
  }
  const headers: Record<string, object> = {
    'an unknown key id': { kid: 'unknown' },
    'a key id that is no text': { kid: 5 },
    'the type of a logout token': { typ: 'logout+jwt' },
    'a type that is no text': { typ: 5 },
  }
  for (const [name, header] of Object.entries(headers)) {
    t.equal(await status(await issuer.token({ header: { ...header } })), 401, name)
  }
  t.equal(await status(await issuer.token({ key: stranger })), 401, 'the signature of another key')
  t.equal(await status(await issuer.token()), 200, 'and a good one is accepted')
})

/** A token whose header and payload are as they are given, with any signature. */
function raw(header: object, payload: object, sign: (text: string) => string): string {
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url')
  const text = `${encode(header)}.${encode(payload)}`
  return `${text}.${sign(text)}`
}

t.test('5.4 a token that brings its own rules is refused', async (t) => {
  const { issuer, status } = await registered(t)
  const attacker = await TestIssuer.start(t)
  const { kid, alg } = issuer.key
  const payload = { iss: issuer.url, sub: 'robot', aud: 'waybill', exp: seconds(600) }
  const hmac = (secret: string) => (text: string) =>
    createHmac('sha256', secret).update(text).digest('base64url')
  const publicKey = createPublicKey({ key: { ...issuer.key.publicJwk }, format: 'jwk' })
    .export({ format: 'pem', type: 'spki' })
    .toString()

  for (const none of ['none', 'None', 'NONE']) {
    t.equal(await status(raw({ alg: none }, payload, () => '')), 401, `the algorithm ${none}`)
    t.equal(await status(raw({ alg: none, kid }, payload, () => 'AAAA')), 401, `${none} with a signature`)
  }
  const jwk = JSON.stringify(issuer.key.publicJwk)
  for (const secret of [publicKey, publicKey.trim(), jwk, '']) {
    t.equal(await status(raw({ alg: 'HS256', kid }, payload, hmac(secret))), 401, 'HS256 with the public key')
  }
  t.equal(await status(raw({ alg: 'RS256', kid }, payload, () => '')), 401, 'no signature')
  t.equal(await status(raw({ kid }, payload, () => 'AAAA')), 401, 'no algorithm')

  const signedByAttacker = (header: object): Promise<string> =>
    issuer.token({ key: { ...attacker.key, kid, alg }, header: { ...header } })
  const own: Record<string, object> = {
    jku: { jku: `${attacker.url}/keys` },
    'jku with its own key id': { jku: `${attacker.url}/keys`, kid: attacker.key.kid },
    jwk: { jwk: attacker.key.publicJwk },
    x5u: { x5u: `${attacker.url}/keys` },
    x5c: { x5c: [Buffer.from('certificate').toString('base64')] },
  }
  for (const [name, header] of Object.entries(own))
    t.equal(await status(await signedByAttacker(header)), 401, name)
  t.same(attacker.requests, [], 'and nothing is fetched from where the header says')

  const critical = raw({ alg, kid, crit: ['waybill'], waybill: 1 }, payload, () => 'AAAA')
  t.equal(await status(critical), 401, 'crit')
  t.equal(
    await status(await issuer.token({ header: { crit: ['b64'], b64: true } })),
    401,
    'crit, well signed',
  )
})

t.test('5.4 what is no token is refused, of any size', async (t) => {
  const { api, issuer, status } = await registered(t)
  const good = await issuer.token()
  const [header = '', payload = '', signature = ''] = good.split('.')
  const wrong: Record<string, string> = {
    'two parts': `${header}.${payload}`,
    'four parts': `${good}.${signature}`,
    'a JWE': `${good}.${signature}.${signature}`,
    'no parts': 'x',
    'a header that is no JSON': `${Buffer.from('{').toString('base64url')}.${payload}.${signature}`,
    'a header that is a list': `${Buffer.from('[]').toString('base64url')}.${payload}.${signature}`,
    'a payload that is no JSON': `${header}.${Buffer.from('x').toString('base64url')}.${signature}`,
    'a payload that is a number': `${header}.${Buffer.from('1').toString('base64url')}.${signature}`,
    'a signature cut short': good.slice(0, -4),
    'dots alone': '..',
  }
  for (const [name, token] of Object.entries(wrong)) t.equal(await status(token), 401, name)
  const large = await issuer.token({ claims: { padding: 'x'.repeat(9_000) } })
  t.equal(await status(large), 401, 'one above 8 KiB, although all else is right')
  const almost = await issuer.token({ claims: { padding: 'x'.repeat(4_500) } })
  t.ok(almost.length < 8 * 1024)
  t.equal(await status(almost), 200)
  const huge = await api.client
    .get('/organizations', { headers: { authorization: `Bearer ${'a'.repeat(2 ** 20)}` } })
    .then((answer) => answer.status)
    // The server may close the connection before all of it is sent.
    .catch(() => 431)
  t.equal(huge, 431, 'one of a megabyte is above what headers may have')
  t.equal(await status(good), 200)
})

t.test('2.8 api_audience: empty means the client id', async (t) => {
  const { issuer, status } = await registered(t, { api_audience: '', client_id: 'waybill-client' })
  t.equal(await status(await issuer.token({ claims: { aud: 'waybill-client' } })), 200)
  t.equal(await status(await issuer.token()), 401)
  const idToken = { aud: 'waybill-client', nonce: 'n', at_hash: 'h', email: 'robot@example.com' }
  t.equal(await status(await issuer.token({ claims: idToken })), 401, 'an ID token has that audience too')
})

t.test('2.8 accept_tokens_without_audience, for a registered federated service account only', async (t) => {
  const accepting = { api_audience: '', accept_tokens_without_audience: true }
  const { api, issuer, status } = await registered(t, accepting)
  for (const aud of [undefined, '', []]) {
    t.equal(await status(await issuer.token({ claims: { aud } })), 200, JSON.stringify(aud))
    const others = await issuer.token({ claims: { aud, sub: 'somebody' } })
    t.equal(await status(others), 401)
  }
  t.equal(await status(await issuer.token()), 401, 'one that has an audience must have the right one')
  const identity = { kind: 'identity', issuer: issuer.url, subject: 'anna' } as const
  await api.identity.users.add('anna', identity, SYSTEM_CALLER)
  t.equal(await status(await issuer.token({ claims: { aud: undefined, sub: 'anna' } })), 401, 'no user')
})

t.test('5.6 the caller is the user of the identity, as long as it is enabled', async (t) => {
  const { api, issuer, status } = await registered(t)
  const { users } = api.identity
  const token = await issuer.token({ claims: { sub: 'anna' } })
  t.equal(await status(token), 401, 'nobody yet')
  await users.add('anna', { kind: 'identity', issuer: issuer.url, subject: 'anna' }, SYSTEM_CALLER)
  t.equal(await status(token), 200)
  await users.setEnabled('anna', false, SYSTEM_CALLER)
  t.equal(await status(token), 401, "a disabled user's token")
  await users.setEnabled('anna', true, SYSTEM_CALLER)
  t.equal(await status(token), 200)
})

t.test('5.5 a token whose issuer no enabled provider has, with or without a valid signature', async (t) => {
  const { status, issuer } = await registered(t, { enabled: false })
  t.equal(await status(await issuer.token()), 401)
  t.same(issuer.requests, [], 'and its provider is not asked for keys')
})

t.test('5.4 a token that was accepted is accepted until it expires and no longer', async (t) => {
  const { clock, issuer, status } = await registered(t)
  const token = await issuer.token({ claims: { exp: seconds(3_600) } })
  t.equal(await status(token), 200)
  clock.advance(3_000_000)
  t.equal(await status(token), 200)
  clock.advance(600_000)
  t.equal(await status(token), 401)
})
