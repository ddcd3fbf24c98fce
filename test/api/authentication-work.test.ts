import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import t, { type Test } from 'tap'
import { tokenChecker } from '../../api/rest/authentication/check-token.ts'
import { systemClock } from '../../runtime/clock.ts'
import { startApi } from '../support/api.ts'
import { makeKey, TestIssuer } from '../support/test-issuer.ts'

/**
 * What a refused token costs (specification, 5.10): the message of INVALID_TOKEN never says what is wrong, and neither
 * does the work that is done before it. Work is counted, not timed: statements, hashes, comparisons, signatures.
 */

t.setTimeout(300_000)

interface Work {
  readonly statements: readonly string[]
  readonly hashes: number
  readonly comparisons: number
  readonly signatures: number
}

const counts = { hashes: 0, comparisons: 0, signatures: 0 }

/** Counts what the platform is asked for; ended with the test. */
function countWork(t: Test): void {
  const { hash, timingSafeEqual } = crypto
  const { subtle } = globalThis.crypto
  const verify = subtle.verify.bind(subtle)
  crypto.hash = ((...given: Parameters<typeof hash>) => {
    counts.hashes += 1
    return hash(...given)
  }) as typeof hash
  crypto.timingSafeEqual = (one, other) => {
    counts.comparisons += 1
    return timingSafeEqual(one, other)
  }
  subtle.verify = async (...given: Parameters<typeof verify>) => {
    counts.signatures += 1
    return verify(...given)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(crypto, { hash, timingSafeEqual })
    subtle.verify = verify
    syncBuiltinESMExports()
  })
}

async function started(t: Test) {
  const api = await startApi(t)
  const issuer = await TestIssuer.start(t)
  const { client } = api
  const { pool, log } = api.database
  const statements: string[] = []
  const counted = new Proxy(pool, {
    get: (target, name) => {
      if (name !== 'query') return Reflect.get(target, name, target) as unknown
      return (statement: { name: string; values: unknown[] }) => {
        statements.push(`${statement.name} of ${statement.values.length}`)
        return target.query(statement as never)
      }
    },
  })
  const { lastUse } = api.identity
  const checkToken = tokenChecker({ pool: counted, lastUse, clock: systemClock, log, userAgent: 'test' })
  const provider = { name: 'login', issuer_url: issuer.url, sign_in: false, api_audience: 'waybill' }
  await client.create('/oidc-providers', provider)
  const identity = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
  await client.create('/service-accounts', { name: 'robot', kind: 'federated', ...identity })
  await client.create('/service-accounts', { name: 'erp' })
  await client.create('/service-accounts', { name: 'off' })
  const make = async (service_account: string) => {
    const { id, token } = await client.create('/api-tokens', { service_account, label: 'test' })
    return { id, token: String(token) }
  }
  const ask = (token: string) => checkToken(token, log)
  /** The work that is done for a token, which is accepted or refused. */
  const workFor = async (token: string): Promise<Work> => {
    statements.length = 0
    Object.assign(counts, { hashes: 0, comparisons: 0, signatures: 0 })
    await ask(token).catch((thrown: unknown) => {
      t.match(thrown, { code: 'INVALID_TOKEN', message: 'The token is not valid' })
    })
    return { statements: [...statements], ...counts }
  }
  return { api, client, issuer, make, ask, workFor }
}

const changed = (text: string, at: number): string =>
  text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1)

t.test('5.10 whatever is wrong with an API token, the work is the same', async (t) => {
  const { api, client, make, workFor } = await started(t)
  const [revoked, disabled, good] = [await make('erp'), await make('off'), await make('erp')]
  await client.delete(`/api-tokens/${String(revoked.id)}`)
  await api.database.pool.query("update service_account set enabled = false where name = 'off'")
  countWork(t)
  const same: Work = {
    statements: ['identity revision of 0', 'identity token of 1'],
    hashes: 1,
    comparisons: 1,
    signatures: 0,
  }
  const wrong: Record<string, string> = {
    'an unknown public id': changed(good.token, 5),
    'a wrong secret': changed(good.token, 20),
    'a wrong checksum': changed(good.token, good.token.length - 1),
    'one that is cut short': good.token.slice(0, -1),
    'one with more behind it': `${good.token}A`,
    'the prefix alone': 'wbl_',
    garbage: 'wbl_garbage',
    'a very long one': `wbl_${'a'.repeat(15_000)}`,
    'a revoked one': revoked.token,
    'the revoked one again': revoked.token,
    'one of a disabled account': disabled.token,
  }
  for (const [name, token] of Object.entries(wrong)) t.same(await workFor(token), same, name)
  const right = { ...same }
  t.same(await workFor(good.token), right, 'a good one costs no less at first')
  const again = { statements: ['identity revision of 0'], hashes: 1, comparisons: 0, signatures: 0 }
  t.same(await workFor(good.token), again, 'and one statement from then on')
})

t.test('5.10 whatever is wrong with a token that is no API token, the statements are the same', async (t) => {
  const { issuer, workFor } = await started(t)
  const stranger = await makeKey('RS256', issuer.key.kid)
  countWork(t)
  const statements = ['identity revision of 0', 'identity of issuer of 2']
  const unread: Record<string, string> = {
    garbage: 'garbage',
    'two parts': 'a.b',
    'parts that are no JSON': 'a.b.c',
    'a very long one': `${await issuer.token()}${'a'.repeat(9_000)}`,
    'an unknown issuer': await issuer.token({ claims: { iss: 'https://elsewhere.example' } }),
    'no issuer': await issuer.token({ claims: { iss: undefined } }),
    'a critical extension': await issuer.token({ header: { crit: ['b64'], b64: true } }),
  }
  for (const [name, token] of Object.entries(unread)) {
    t.same(await workFor(token), { statements, hashes: 1, comparisons: 0, signatures: 0 }, name)
  }
  const read: Record<string, string> = {
    'the signature of another key': await issuer.token({ key: stranger }),
    'another audience': await issuer.token({ claims: { aud: 'other' } }),
    'a subject that nobody is registered for': await issuer.token({ claims: { sub: 'other' } }),
    expired: await issuer.token({ claims: { exp: Math.floor(Date.now() / 1000) - 1 } }),
    'an ID token': await issuer.token({ claims: { nonce: 'n' } }),
  }
  for (const [name, token] of Object.entries(read)) {
    t.same(await workFor(token), { statements, hashes: 1, comparisons: 0, signatures: 1 }, name)
  }
})

t.test(
  'many wrong tokens fetch nothing, push no accepted one out, and cost one signature check each',
  async (t) => {
    const { api, issuer, make, ask, workFor } = await started(t)
    const good = await issuer.token()
    const { token } = await make('erp')
    await ask(good)
    await ask(token)
    t.equal(issuer.requests.length, 2, 'the keys are fetched once')
    const stranger = await makeKey('RS256', issuer.key.kid)
    const forged = await Promise.all(
      Array.from({ length: 300 }, (_, n) => issuer.token({ key: stranger, claims: { jti: String(n) } })),
    )
    countWork(t)
    Object.assign(counts, { signatures: 0 })
    const refused = async (tokens: readonly string[]): Promise<void> => {
      const results = await Promise.allSettled(tokens.map(ask))
      if (results.some(({ status }) => status === 'fulfilled')) t.fail('a wrong token is accepted')
    }
    await refused(forged)
    t.equal(counts.signatures, forged.length)
    t.equal(issuer.requests.length, 2)

    Object.assign(counts, { signatures: 0 })
    const [header = '', , signature = ''] = good.split('.')
    // More than are kept at most, were they kept.
    for (let round = 0; round < 21; round += 1) {
      const claims = (n: number) => ({ iss: 'https://x.example', sub: `${round} ${n}` })
      const encoded = (n: number) => Buffer.from(JSON.stringify(claims(n))).toString('base64url')
      await refused(Array.from({ length: 500 }, (_, n) => `${header}.${encoded(n)}.${signature}`))
    }
    t.equal(counts.signatures, 0, 'and none for an unknown issuer')
    t.equal(issuer.requests.length, 2)
    for (const each of [good, token]) {
      const { statements, signatures } = await workFor(each)
      t.same({ statements, signatures }, { statements: ['identity revision of 0'], signatures: 0 })
    }
    const header431 = { headers: { authorization: `Bearer ${'a'.repeat(17 * 1024)}` } }
    t.equal((await api.client.get('/health', header431).catch(() => ({ status: 431 }))).status, 431)
  },
)
