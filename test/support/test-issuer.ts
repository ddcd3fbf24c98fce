import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose'
import type { Teardown } from './database.ts'

/** How an issuer answers. */
type Answering = (request: IncomingMessage, response: ServerResponse) => boolean

interface SigningKey {
  readonly kid: string
  readonly alg: string
  readonly privateKey: CryptoKey
  readonly publicJwk: JWK
}

/** What a token is made of, where it differs from a good one. Undefined leaves a claim out. */
export interface TokenParts {
  readonly claims?: Readonly<Record<string, unknown>>
  readonly header?: Readonly<Record<string, unknown>>
  readonly key?: SigningKey
}

/** An identity provider made by hand, on loopback: its discovery document, its keys, and tokens of every kind. */
export class TestIssuer {
  readonly #server: Server
  readonly url: string
  /** Every request that it got, as method and path. */
  readonly requests: string[] = []
  /** The keys that it publishes. */
  readonly keys: SigningKey[] = []
  /** Comes before the usual answers: true when it has answered. */
  interfere: Answering = () => false

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  static async start(t: Teardown): Promise<TestIssuer> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('The issuer has no port')
    const issuer = new TestIssuer(server, `http://127.0.0.1:${address.port}`)
    server.on('request', (request, response) => issuer.#answer(request, response))
    issuer.keys.push(await makeKey())
    t.teardown(() => issuer.stop())
    return issuer
  }

  /** From then on it refuses connections. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  get key(): SigningKey {
    const [key] = this.keys
    if (key === undefined) throw new Error('The issuer has no key')
    return key
  }

  /** A token that is good for the audience `waybill` and the subject `robot`, but for what is given. */
  async token({ claims = {}, header = {}, key = this.key }: TokenParts = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1000)
    const good: JWTPayload = { iss: this.url, sub: 'robot', aud: 'waybill', iat: now, exp: now + 600 }
    return new SignJWT(defined({ ...good, ...claims }))
      .setProtectedHeader({ alg: key.alg, kid: key.kid, ...header })
      .sign(key.privateKey)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push(`${request.method} ${request.url}`)
    if (this.interfere(request, response)) return
    const documents: Readonly<Record<string, unknown>> = {
      '/.well-known/openid-configuration': { issuer: this.url, jwks_uri: `${this.url}/keys` },
      '/keys': { keys: this.keys.map(({ publicJwk }) => publicJwk) },
    }
    const document = documents[request.url ?? '']
    answerJson(response, document === undefined ? 404 : 200, document ?? {})
  }
}

export function answerJson(response: ServerResponse, status: number, document: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document))
}

let made = 0

export async function makeKey(alg = 'RS256', kid = `key-${(made += 1)}`): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, alg, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

function defined(claims: Readonly<Record<string, unknown>>): JWTPayload {
  return Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== undefined))
}
