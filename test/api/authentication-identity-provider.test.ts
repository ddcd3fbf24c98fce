import t from 'tap'
import { startApi, type TestApi } from '../support/api.ts'
import { startOidcProvider } from '../support/certified-provider.ts'

/** Against a certified implementation of OpenID Connect, as a machine client uses it (specification, 5.8). */

t.setTimeout(240_000)

const AUDIENCE = 'https://waybill.example/api'

async function asking(api: TestApi, token: string) {
  return api.client.get('/organizations', { headers: { authorization: `Bearer ${token}` } })
}

t.test('5.8 a machine client has a token of the client credentials grant', async (t) => {
  const provider = await startOidcProvider(t, AUDIENCE)
  const api = await startApi(t)
  const { client } = api
  const registered = await client.create('/oidc-providers', {
    name: 'certified',
    issuer_url: provider.issuer,
    sign_in: false,
    api_audience: AUDIENCE,
    api_scopes: 'waybill.api',
  })
  const token = await provider.clientCredentialsToken('waybill.api waybill.read')

  t.equal((await asking(api, token)).error?.code, 'INVALID_TOKEN', 'its subject is not registered')
  const account = await client.create('/service-accounts', {
    name: 'erp',
    kind: 'federated',
    oidc_issuer: provider.issuer,
    oidc_subject: provider.clientId,
  })
  t.equal((await asking(api, token)).status, 200, 'from the registration on')
  const used = await client.get(`/service-accounts/${String(account['id'])}`)
  t.type(used.data['last_used_at'], 'string')

  const narrow = await provider.clientCredentialsToken('waybill.read')
  t.equal((await asking(api, narrow)).error?.code, 'INVALID_TOKEN', 'a token without the API scope')

  t.test('2.8 a change counts from the next token, one that was accepted before too', async (t) => {
    const change = async (path: string, body: object, status: number): Promise<void> => {
      t.equal((await client.put(path, body)).status, 200)
      t.equal((await asking(api, token)).status, status, `${path} ${JSON.stringify(body)}`)
    }
    const accountPath = `/service-accounts/${String(account['id'])}`
    const providerPath = `/oidc-providers/${String(registered['id'])}`
    await change(accountPath, { enabled: false }, 401)
    await change(accountPath, { enabled: true }, 200)
    await change(accountPath, { oidc_subject: 'another' }, 401)
    await change(accountPath, { oidc_subject: provider.clientId }, 200)
    await change(providerPath, { enabled: false }, 401)
    await change(providerPath, { enabled: true }, 200)
    await change(providerPath, { api_audience: `${AUDIENCE}/v2` }, 401)
    await change(providerPath, { api_audience: AUDIENCE }, 200)
    await change(providerPath, { api_scopes: 'waybill.admin' }, 401)
    await change(providerPath, { api_scopes: 'waybill.read waybill.api' }, 200)
    await change(providerPath, { api_audience: '', client_id: 'another' }, 401)
    await change(providerPath, { client_id: AUDIENCE }, 200)
    await change(providerPath, { issuer_url: `${provider.issuer}/` }, 401)
    await change(providerPath, { issuer_url: provider.issuer }, 200)
    t.equal((await client.delete(providerPath)).status, 204)
    t.equal((await asking(api, token)).status, 401)
  })
})
