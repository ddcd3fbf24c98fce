import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startApi } from '../support/api.ts'
import type { ApiClient } from '../support/client.ts'
import { movableClock, type MovableClock } from '../support/movable-clock.ts'
import { answerJson, makeKey, TestIssuer, type TokenParts } from '../support/test-issuer.ts'

/** How the keys of a provider are fetched, and that nobody can make us fetch more (specification, 5.4). */

t.setTimeout(240_000)

const COOLDOWN_MS = 30_000
const HOUR_MS = 3_600_000

interface Asked {
  readonly client: ApiClient
  readonly clock: MovableClock
}

async function asked(t: Test): Promise<Asked> {
  const clock = movableClock({ standsStill: true })
  const { client } = await startApi(t, { clock })
  return { client, clock }
}

let issuers = 0

/** An issuer whose tokens for the subject `robot` are those of an account. */
async function registered(t: Test, { client, clock }: Asked) {
  const issuer = await TestIssuer.start(t)
  const name = `robot-${(issuers += 1)}`
  await client.create('/oidc-providers', {
    name,
    issuer_url: issuer.url,
    sign_in: false,
    api_audience: 'waybill',
  })
  const identity = { oidc_issuer: issuer.url, oidc_subject: 'robot' }
  await client.create('/service-accounts', { name, kind: 'federated', ...identity })
  const ask = async (token: string): Promise<number> => {
    const answer = await client.get('/organizations', { headers: { authorization: `Bearer ${token}` } })
    if (answer.status !== 200) t.equal(answer.error?.message, 'The token is not valid')
    return answer.status
  }
  /** The clock of the API stands still and moves by hours: the times of a token do not matter here. */
  const token = (parts: TokenParts = {}): Promise<string> => {
    const exp = Math.floor(Date.now() / 1000) + 1_000_000
    return issuer.token({ ...parts, claims: { exp, ...parts.claims } })
  }
  return { issuer, clock, ask, token, status: async (parts?: TokenParts) => ask(await token(parts)) }
}

t.test('requests at the same time share one fetch', async (t) => {
  const { issuer, ask, token } = await registered(t, await asked(t))
  const tokens = await Promise.all(
    Array.from({ length: 50 }, (_, n) => token({ claims: { jti: String(n) } })),
  )
  t.same(new Set(await Promise.all(tokens.map(ask))), new Set([200]))
  t.same(issuer.requests, ['GET /.well-known/openid-configuration', 'GET /keys'])
})

for (const [name, isDown] of Object.entries({
  'that is down': () => true,
  'whose keys cannot be fetched': (url: string) => url === '/keys',
})) {
  t.test(`a provider ${name} is asked at most twice in 30 seconds, by 1,000 requests`, async (t) => {
    const { issuer, clock, ask, token, status } = await registered(t, await asked(t))
    issuer.interfere = (request) => {
      if (!isDown(request.url ?? '')) return false
      request.socket.destroy()
      return true
    }
    const tokens = await Promise.all([
      ...Array.from({ length: 20 }, (_, n) => token({ claims: { jti: String(n) } })),
      ...Array.from({ length: 20 }, (_, n) => token({ header: { kid: `unknown ${n}` } })),
    ])
    const statuses = new Set<number>()
    for (let round = 0; round < 25; round += 1) {
      for (const each of await Promise.all(tokens.map(ask))) statuses.add(each)
      clock.advance(COOLDOWN_MS / 25 - 1)
    }
    t.same(statuses, new Set([401]))
    t.ok(issuer.requests.length <= 2, issuer.requests.join(', '))

    issuer.interfere = () => false
    clock.advance(COOLDOWN_MS)
    t.equal(await status(), 200, 'and once it is back its tokens are accepted')
  })
}

t.test('a new key is accepted at once, and made-up key ids cause one fetch in 30 seconds', async (t) => {
  const { issuer, clock, ask, token, status } = await registered(t, await asked(t))
  const [old] = issuer.keys
  t.equal(await status(), 200)
  const next = await makeKey()
  issuer.keys.splice(0, 1, next)
  t.equal(await status({ key: next }), 200)
  t.equal(issuer.requests.length, 3, 'one more fetch')
  t.equal(await status({ ...(old === undefined ? {} : { key: old }), claims: { jti: 'old' } }), 401)

  const madeUp = await Promise.all(
    Array.from({ length: 100 }, (_, n) => token({ key: next, header: { kid: `unknown ${n}` } })),
  )
  t.same(new Set(await Promise.all(madeUp.map(ask))), new Set([401]))
  t.equal(issuer.requests.length, 3, 'strangers cause no fetch')
  clock.advance(COOLDOWN_MS)
  t.same(new Set(await Promise.all(madeUp.map(ask))), new Set([401]))
  t.equal(issuer.requests.length, 4, 'but one each 30 seconds')
})

t.test(
  'keys serve for an hour while the provider is down, and are fetched anew when they are old',
  async (t) => {
    const { issuer, clock, status } = await registered(t, await asked(t))
    const fresh = (n: number) => status({ claims: { jti: String(n) } })
    t.equal(await fresh(1), 200)
    clock.advance(9 * 60_000)
    t.equal(await fresh(2), 200)
    t.equal(issuer.requests.length, 2)
    clock.advance(2 * 60_000)
    t.equal(await fresh(3), 200)
    t.equal(issuer.requests.length, 4, 'after ten minutes they are fetched anew')
    await issuer.stop()
    clock.advance(HOUR_MS - 1)
    t.equal(await fresh(4), 200)
    clock.advance(COOLDOWN_MS + 1)
    t.equal(await fresh(5), 401)
  },
)

t.test('documents of a provider that are not taken', async (t) => {
  const api = await asked(t)
  const elsewhere = await TestIssuer.start(t)
  const discovery = '/.well-known/openid-configuration'
  const wrong: Record<string, (issuer: TestIssuer) => TestIssuer['interfere']> = {
    'the discovery document of another issuer': (issuer) => (request, response) => {
      if (request.url !== discovery) return false
      answerJson(response, 200, { issuer: `${issuer.url}/`, jwks_uri: `${issuer.url}/keys` })
      return true
    },
    'a discovery document without jwks_uri': (issuer) => (request, response) => {
      if (request.url !== discovery) return false
      answerJson(response, 200, { issuer: issuer.url })
      return true
    },
    'a jwks_uri that is neither https nor on loopback': (issuer) => (request, response) => {
      if (request.url !== discovery) return false
      answerJson(response, 200, { issuer: issuer.url, jwks_uri: 'http://keys.example/keys' })
      return true
    },
    'a jwks_uri that is no URL': (issuer) => (request, response) => {
      if (request.url !== discovery) return false
      answerJson(response, 200, { issuer: issuer.url, jwks_uri: '/keys' })
      return true
    },
    'a redirected discovery document': (_issuer) => (request, response) => {
      if (request.url !== discovery) return false
      response.writeHead(302, { location: `${elsewhere.url}${discovery}` }).end()
      return true
    },
    'redirected keys': (_issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      response.writeHead(307, { location: `${elsewhere.url}/keys` }).end()
      return true
    },
    'keys that are no set of keys': (_issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      answerJson(response, 200, { keys: 'none' })
      return true
    },
    'keys that are no JSON': (_issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      response.writeHead(200).end('<html>')
      return true
    },
    'keys with the status 500': (issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      answerJson(response, 500, { keys: [issuer.key.publicJwk] })
      return true
    },
    'keys of a megabyte': (issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      answerJson(response, 200, { keys: [issuer.key.publicJwk], padding: 'x'.repeat(2 ** 20) })
      return true
    },
    'keys that are small only while they are compressed': (issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      const padding = ' '.repeat(20 * 2 ** 20)
      const keys = JSON.stringify({ keys: [issuer.key.publicJwk], padding })
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(keys))
      return true
    },
    'a discovery document that is no object': (_issuer) => (request, response) => {
      if (request.url !== discovery) return false
      answerJson(response, 200, null)
      return true
    },
    'a discovery document that is nested too deep': (_issuer) => (request, response) => {
      if (request.url !== discovery) return false
      response.writeHead(200).end('['.repeat(400_000))
      return true
    },
    'a discovery document that comes byte by byte': (issuer) => (request, response) => {
      if (request.url !== discovery) return false
      const text = JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` })
      let sent = 0
      const drip = setInterval(() => response.write(text.charAt(sent++)), 500)
      response.once('close', () => clearInterval(drip))
      return true
    },
    'keys that never end': (issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      response.writeHead(200).write(`{"keys":[${JSON.stringify(issuer.key.publicJwk)}`)
      return true
    },
    'an answer that never comes': (_issuer) => () => true,
    'a symmetric key and a private one': (issuer) => (request, response) => {
      if (request.url !== '/keys') return false
      const { kid } = issuer.key
      answerJson(response, 200, { keys: [{ kty: 'oct', k: 'c2VjcmV0', kid, alg: 'HS256' }] })
      return true
    },
  }
  await Promise.all(
    Object.entries(wrong).map(([name, interfere]) =>
      t.test(name, async (t) => {
        const { issuer, status } = await registered(t, api)
        issuer.interfere = interfere(issuer)
        t.equal(await status(), 401)
      }),
    ),
  )
  t.same(elsewhere.requests, [], 'a redirect is not followed')
})

t.test('what is no key in a set of keys leaves the others in use', async (t) => {
  const { issuer, status } = await registered(t, await asked(t))
  issuer.interfere = (request, response) => {
    if (request.url !== '/keys') return false
    answerJson(response, 200, { keys: [null, 7, { kty: 'new' }, issuer.key.publicJwk] })
    return true
  }
  t.equal(await status(), 200)
})
