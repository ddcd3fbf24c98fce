import { once } from 'node:events'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'
import type { Teardown } from './database.ts'

/** The certified implementation `oidc-provider` on loopback, with one confidential client. */
export interface CertifiedProvider {
  readonly issuer: string
  readonly clientId: string
  /** An access token by the client credentials grant (RFC 6749 §4.4), as a machine client gets it. */
  readonly clientCredentialsToken: (scope: string) => Promise<string>
}

const CLIENT_ID = 'erp-client'
const CLIENT_SECRET = 'the secret of the client at the provider'

export async function startOidcProvider(t: Teardown, resource: string): Promise<CertifiedProvider> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The provider has no port')
  const issuer = `http://127.0.0.1:${address.port}`
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'certified' }] },
    cookies: { keys: ['for tests alone'] },
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'waybill.api waybill.read',
          audience: resource,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  // It answers by itself and tells its own failures.
  const answer = provider.callback()
  server.on('request', (request, response) => void answer(request, response))
  t.teardown(async () => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  })
  return {
    issuer,
    clientId: CLIENT_ID,
    clientCredentialsToken: async (scope) => {
      const asked = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${CLIENT_ID}:${encodeURIComponent(CLIENT_SECRET)}`).toString('base64')}`,
          'content-type': 'application/x-www-form-urlencoded',
        },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope }),
      })
      const answered = (await asked.json()) as { access_token?: string }
      if (answered.access_token === undefined) throw new Error(`No token: ${JSON.stringify(answered)}`)
      return answered.access_token
    },
  }
}
