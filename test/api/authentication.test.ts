import t from 'tap'
import { startApi } from '../support/api.ts'

t.test('a release build answers 401 on every path but GET /health', async (t) => {
  const { client } = await startApi(t, { build: 'release' })
  const refused = async (code: string, headers: Record<string, string>): Promise<void> => {
    for (const path of ['/organizations', '/openapi.yaml', '/organizations/x', '/nothing', '/health/more']) {
      const answer = await client.get(path, { headers })
      t.equal(answer.status, 401, `${path} ${code}`)
      t.equal(answer.error?.code, code)
      t.equal(answer.headers.get('www-authenticate'), 'Bearer')
    }
    const write = await client.ask('POST', '/organizations', { raw: 'x', headers })
    t.equal(write.error?.code, code, 'before the Content-Type is looked at')
    const method = await client.ask('PATCH', '/organizations', { headers })
    t.equal(method.error?.code, code, 'before the method is looked at')
  }
  t.test('without Authorization: MISSING_AUTH_HEADER', () => refused('MISSING_AUTH_HEADER', {}))
  for (const authorization of ['Basic YTpi', 'Bearer', 'Bearer a b', 'wbl_abc', '"']) {
    t.test(`with ${authorization}: INVALID_AUTH_HEADER`, () =>
      refused('INVALID_AUTH_HEADER', { authorization }),
    )
  }
  for (const authorization of ['Bearer wbl_000000000000abc', 'bearer a.b.c']) {
    t.test(`with ${authorization}: INVALID_TOKEN`, () => refused('INVALID_TOKEN', { authorization }))
  }
  t.test('GET /health is public', async (t) => {
    t.equal((await client.get('/health')).status, 200)
    t.equal((await client.ask('POST', '/health')).status, 401)
  })
})

t.test('the developer build takes a request without credential and checks one that is given', async (t) => {
  const { client } = await startApi(t)
  t.equal((await client.get('/organizations')).status, 200)
  const basic = await client.get('/organizations', { headers: { authorization: 'Basic YTpi' } })
  t.equal(basic.error?.code, 'INVALID_AUTH_HEADER')
  const token = await client.get('/organizations', { headers: { authorization: 'Bearer x' } })
  t.equal(token.error?.code, 'INVALID_TOKEN')
})
