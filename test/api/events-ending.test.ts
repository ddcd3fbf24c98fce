import { once } from 'node:events'
import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { query } from '../../storage/postgres/pool.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { EventClient } from '../support/event-client.ts'
import { writeLines } from '../support/history-lines.ts'
import { until } from '../support/processes.ts'
import { exchange, openConnection } from '../support/raw-http.ts'
import { storeMessages } from '../support/stored-messages.ts'

t.setTimeout(300_000)

const MANY_BYTES = 64 * 1024

async function tokenOf(api: TestApi, service_account: string) {
  const values = { service_account, label: 'test', expires_in_days: 1 }
  const made = await api.identity.apiTokens.createWithAccount(values, SYSTEM_CALLER)
  return { id: made.token.id, headers: { authorization: `Bearer ${made.text}` } }
}

t.test('8 the stream has a comment every so often, also while nothing happens', async (t) => {
  const api = await startApi(t, { timeouts: { commentMs: 20 } })
  const client = await EventClient.open(t, api.base)
  await until(() => client.comments.length >= 5)
  t.strictSame(client.events, [])
  t.equal(client.ended, null)
})

t.test('5 a stream needs a credential, and ends when that is revoked or its account disabled', async (t) => {
  const api = await startApi(t, { build: 'release', timeouts: { commentMs: 50 } })
  await t.rejects(EventClient.open(t, api.base), /401/)
  const [kept, revoked, disabled] = await Promise.all(
    ['kept', 'revoked', 'disabled'].map(async (name) => {
      const { id, headers } = await tokenOf(api, name)
      return { id, client: await EventClient.open(t, api.base, { headers }), headers }
    }),
  )
  if (kept === undefined || revoked === undefined || disabled === undefined) throw new Error('No clients')
  const ask = { headers: { ...kept.headers, 'content-type': 'application/json' } }
  t.equal((await api.client.ask('DELETE', `/api-tokens/${revoked.id}`, ask)).status, 204)
  t.equal(await revoked.client.over(), 'complete')
  const [account] = await query<{ id: number }>(
    api.database.pool,
    `select id from service_account where name = 'disabled'`,
  )
  const body = { enabled: false }
  const answer = await api.client.ask('PUT', `/service-accounts/${account?.id}`, { ...ask, body })
  t.equal(answer.status, 200)
  t.equal(await disabled.client.over(), 'complete')
  t.strictSame([revoked.client.events, disabled.client.events], [[], []])
  const before = kept.client.comments.length
  await until(() => kept.client.comments.length > before + 2)
  t.equal(kept.client.ended, null, 'another token is not touched')
  await t.rejects(EventClient.open(t, api.base, { headers: revoked.headers }), /401/)
})

t.test('6.1 HEAD answers the head of a stream and opens none; other methods are 405', async (t) => {
  const api = await startApi(t)
  const head = await fetch(`${api.base}/events`, { method: 'HEAD' })
  t.equal(head.status, 200)
  t.equal(head.headers.get('content-type'), 'text/event-stream')
  t.equal(await head.text(), '')
  t.equal(api.events.tail.readers, 0)
  const wrong = await fetch(`${api.base}/events?message_id=x`, { method: 'HEAD' })
  t.equal(wrong.status, 400)
  const posted = await api.client.ask('POST', '/events', { body: {} })
  t.equal(posted.status, 405)
  t.equal(posted.headers.get('allow'), 'GET, HEAD')
})

t.test('6.1 Accept has no say, as on every path', async (t) => {
  const api = await startApi(t)
  for (const accept of ['application/json', 'text/event-stream;q=0', '*/*', '']) {
    const client = await EventClient.open(t, api.base, { headers: { accept } })
    t.equal(client.headers['content-type'], 'text/event-stream', JSON.stringify(accept))
  }
})

t.test('more streams than the server holds are 503 TOO_BUSY, until one ends', async (t) => {
  const api = await startApi(t, { eventLimits: { readers: 2 } })
  const [first] = await Promise.all([EventClient.open(t, api.base), EventClient.open(t, api.base)])
  const refused = await api.client.get('/events')
  t.equal(refused.status, 503)
  t.equal(refused.error?.code, 'TOO_BUSY')
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  t.equal(refused.headers.get('cache-control'), 'no-store')
  t.match(refused.headers.get('content-type'), /^application\/json/)
  first?.close()
  await until(() => api.events.tail.readers === 1)
  const client = await EventClient.open(t, api.base)
  const [id = ''] = await storeMessages(api.database.pool)
  const [line = 0] = await writeLines(api.database.pool, id)
  await client.reached(line)
  t.strictSame(client.ids, [line])
})

t.test(
  'a client that is gone leaves nothing behind, and without clients the database is not asked',
  async (t) => {
    const api = await startApi(t)
    const { pool } = api.database
    const clients = await Promise.all(Array.from({ length: 20 }, () => EventClient.open(t, api.base)))
    // One is gone before it gets its answer.
    const socket = await openConnection(api.base)
    socket.write('GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n')
    socket.destroy()
    await once(socket, 'close')
    for (const client of clients) client.close()
    await until(() => api.events.tail.readers === 0)
    // An unused connection is closed after a while, one that is used is not.
    const isIdle = async (): Promise<boolean> => {
      const open = await query(
        pool,
        `select from pg_stat_activity where datname = current_database() and application_name = 'waybill events'`,
      )
      return open.length === 0
    }
    await until(isIdle)
    const [id = ''] = await storeMessages(pool)
    const again = await EventClient.open(t, api.base)
    const [line = 0] = await writeLines(pool, id)
    await again.reached(line)
  },
)

t.test('6.1 a client that reads too slowly gets reload, and holds nobody up', async (t) => {
  const api = await startApi(t, { eventLimits: { heldBytes: 40 * MANY_BYTES } })
  const { pool } = api.database
  const [id = ''] = await storeMessages(pool)
  const slow = await EventClient.open(t, api.base)
  const replayed = await EventClient.open(t, api.base, { lastEventId: 0 })
  slow.pause()
  replayed.pause()
  const quick = await EventClient.open(t, api.base)
  const written: number[] = []
  // The kernel holds some megabytes for a connection.
  while (api.events.tail.readers > 1) {
    if (written.length > 10_000) throw new Error('Slow clients are not given up')
    written.push(...(await writeLines(pool, id, 20, 'x'.repeat(MANY_BYTES))))
    await quick.reached(written.at(-1) ?? 0)
  }
  t.strictSame(quick.ids, written)
  t.equal(quick.ended, null)
  for (const client of [slow, replayed]) {
    client.resume()
    t.equal(await client.over(), 'complete')
    t.ok(client.ids.length < written.length)
    t.strictSame(client.ids, written.slice(0, client.ids.length), 'what it got has no gap')
    const last = client.events.at(-1)
    t.strictSame([last?.event, last?.data], ['reload', '{"reason":"slow"}'])
  }
})

t.test('6.1 a client that reads nothing more at all is cut off', async (t) => {
  const api = await startApi(t, { timeouts: { commentMs: 100 } })
  const { pool } = api.database
  const [id = ''] = await storeMessages(pool)
  await writeLines(pool, id, 900, 'x'.repeat(MANY_BYTES / 2))
  const client = await EventClient.open(t, api.base, { lastEventId: 0 })
  client.pause()
  await until(() => api.events.tail.readers === 0)
  client.resume()
  t.equal(await client.over(), 'cut off')
  t.strictSame(
    client.ids,
    client.ids.map((_, at) => at + 1),
  )
})

t.test('a stream asked for by HTTP/1.0 is one too', async (t) => {
  const api = await startApi(t)
  const socket = await openConnection(api.base)
  t.teardown(async () => socket.destroy())
  socket.write('GET /api/v1/events HTTP/1.0\r\n\r\n')
  const [head] = (await once(socket, 'data')) as [Buffer]
  t.match(head.toString(), /^HTTP\/1\.1 200 /)
  t.notMatch(head.toString(), /transfer-encoding/i)
  const [refused] = await exchange(api.base, 'GET /api/v1/events HTTP/1.1\r\nConnection: close\r\n\r\n')
  t.equal(refused?.status, 400)
})
