import t from 'tap'
import { startApi } from '../support/api.ts'

t.test('GET /health', async (t) => {
  const { client, database } = await startApi(t)

  t.test('is unwrapped and healthy while the database answers', async (t) => {
    const answer = await client.get('/health')
    t.equal(answer.status, 200)
    const body = JSON.parse(answer.text) as Record<string, unknown>
    t.same(Object.keys(body), ['status', 'timestamp', 'database'])
    t.match(body, { status: 'healthy', database: 'up' })
  })

  t.test('is 503 and unhealthy when every connection is taken', async (t) => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => database.pool.connect()))
    const answer = await client.get('/health')
    for (const each of clients) each.release()
    t.equal(answer.status, 503)
    t.match(JSON.parse(answer.text), { status: 'unhealthy', database: 'down' })
    t.equal((await client.get('/health')).status, 200)
  })
})
