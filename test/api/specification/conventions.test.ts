import t from 'tap'
import { startApi } from '../../support/api.ts'
import type { JsonSchema } from '../../support/described-api.ts'

/** Specification 2.1, for every resource of the document. */

t.test('2.1 Conventions', async (t) => {
  const { client } = await startApi(t)
  const { described } = client
  const organization = await client.create('/organizations', { name: 'acme', display_name: 'ACME' })
  const path = `/organizations/${String(organization['id'])}`

  t.test('2.1.1 timestamps are RFC 3339 strings', async (t) => {
    for (const name of ['created_at', 'updated_at']) {
      t.match(organization[name], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    }
  })

  t.test('2.1.2 record ids are integers', async (t) => {
    t.type(organization['id'], 'number')
  })

  t.test(
    '2.1.3 the envelope: data and error, one of them null, details only with something to add',
    async (t) => {
      const envelope = async (asked: string) =>
        JSON.parse((await client.get(asked)).text) as Record<string, unknown>
      t.same(await envelope(path), { data: organization, error: null })
      t.same(await envelope('/organizations/999999'), {
        data: null,
        error: { code: 'NOT_FOUND', message: 'Organization not found' },
      })
      t.notOk('data' in (await envelope('/health')), 'GET /health is unwrapped')
    },
  )

  t.test('2.1.4 an item of a list has the same shape as the record itself', async (t) => {
    const { data } = await client.get('/organizations')
    t.same(data, { organizations: [organization], total: 1, limit: 20, offset: 0 })
    const itemOf = (schema: JsonSchema | undefined): string | undefined => {
      const { properties = {} } = schema?.properties?.['data'] ?? {}
      return Object.values(properties).find(({ type }) => type === 'array')?.items?.$ref
    }
    let compared = 0
    for (const { method, path: list, operation } of described.operations) {
      const single = described.operations.find(
        (each) => each.method === 'GET' && each.path === `${list}/{id}`,
      )
      if (method !== 'GET' || single === undefined) continue
      const item = itemOf(described.answerSchema(operation, 200))
      const record = described.answerSchema(single.operation, 200)?.properties?.['data']?.$ref
      t.ok(item !== undefined && item === record, `${list} has items of ${item}, one record is ${record}`)
      compared += 1
    }
    t.ok(compared >= 7)
  })

  t.test(
    '2.1.5 a create starts from the defaults of the form and answers 201 with the stored record',
    async (t) => {
      const created = await client.post('/organizations', { name: 'globex' })
      t.match(created, { status: 201, data: { name: 'globex', display_name: '' } })
      t.same((await client.get(`/organizations/${String(created.data['id'])}`)).data, created.data)
    },
  )

  t.test(
    '2.1.6 an update keeps what is left out, and a body that names another record is refused',
    async (t) => {
      const kept = await client.put(path, { display_name: 'New' })
      t.match(kept, { status: 200, data: { name: 'acme', display_name: 'New' } })
      t.match(await client.put(path, {}), { status: 200, data: { display_name: 'New' } })
      t.match((await client.put(path, { id: 999 })).error?.details, { id: String })
      const back = await client.put(path, kept.data)
      t.match(back, { status: 200 }, 'a record that was read can be put back')
    },
  )

  t.test('2.1.7 a delete answers 204 without a body', async (t) => {
    const { id } = await client.create('/organizations', { name: 'short' })
    const answer = await client.delete(`/organizations/${String(id)}`)
    t.equal(answer.status, 204)
    t.equal(answer.text, '')
    t.equal(answer.headers.get('content-type'), null)
  })

  t.test('2.1.8 write-only values are in no schema of an answer', async (t) => {
    const secret = /password$|^(http_)?headers$|^signing_secret$|^client_secret$/
    for (const { method, path: asked, operation } of described.operations) {
      for (const status of [200, 201]) {
        for (const name of described.propertiesOf(described.answerSchema(operation, status))) {
          t.notMatch(name, secret, `${method} ${asked}`)
        }
      }
    }
    const written = described.operations.flatMap(({ operation }) =>
      described.propertiesOf(operation.requestBody?.content['application/json']?.schema),
    )
    t.ok(
      written.some((name) => secret.test(name)),
      'while bodies have them',
    )
  })
})
