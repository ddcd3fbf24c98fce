import t from 'tap'
import { startApi, type TestApi } from '../support/api.ts'
import type { Teardown } from '../support/database.ts'
import { EventClient } from '../support/event-client.ts'
import { writeLines } from '../support/history-lines.ts'
import { reachStatus, storeMessages } from '../support/stored-messages.ts'

t.setTimeout(300_000)

interface Stored {
  readonly api: TestApi
  readonly one: string
  readonly other: string
}

async function start(t: Teardown & { testdir: () => string }): Promise<Stored> {
  const api = await startApi(t)
  const [one = '', other = ''] = await storeMessages(api.database.pool, { count: 2 })
  return { api, one, other }
}

t.test('6.1 GET /events answers text/event-stream for clients and proxies', async (t) => {
  const { api } = await start(t)
  const { headers, ...client } = await EventClient.open(t, api.base)
  t.equal(headers['content-type'], 'text/event-stream')
  t.match(headers['cache-control'], /no-cache/)
  t.match(headers['cache-control'], /no-transform/)
  t.equal(headers['x-accel-buffering'], 'no')
  t.match(headers['x-request-id'], /^[0-9a-f-]{36}$/)
  t.equal(headers['content-encoding'], undefined)
  t.equal(client.ended, null)
})

t.test(
  '6.1 only lines added after the connection are sent, with the properties of the history',
  async (t) => {
    const { api, one, other } = await start(t)
    const { pool } = api.database
    await writeLines(pool, one, 3)
    const client = await EventClient.open(t, api.base)
    await reachStatus(pool, [one], 'Error')
    const [last = 0] = await writeLines(pool, other)
    await client.reached(last)
    t.equal(client.events.length, 2)
    t.strictSame(
      client.events.map(({ event }) => event),
      ['message_history', 'message_history'],
    )
    t.strictSame(
      client.events.map(({ lastEventId }) => lastEventId),
      client.ids.map(String),
      'the id is that of the line',
    )
    for (const [at, id] of [one, other].entries()) {
      const { data } = await api.client.get(`/messages/${id}`)
      const history = data['history'] as readonly unknown[]
      t.strictSame(
        JSON.parse(client.events[at]?.data ?? ''),
        history.at(-1),
        'as GET /messages/{id} shows it',
      )
    }
    t.ok((client.retry ?? 0) >= 1_000, 'a browser is told when to connect again')
  },
)

t.test('6.1 what happens to a message arrives as it is written', async (t) => {
  const { api } = await start(t)
  const { client: rest } = api
  await rest.create('/organizations', { name: 'acme' })
  await rest.create('/partners', { name: 'globex' })
  await rest.create('/plugins/configs?type=file-writer', { name: 'writer', base_directory: t.testdir() })
  const client = await EventClient.open(t, api.base)
  const parts = { from: 'acme', to: 'globex', target: 'writer', file: new Uint8Array([1]) }
  const sent = await rest.ask('POST', '/messages', { parts })
  t.equal(sent.status, 201)
  const history = sent.data['history'] as readonly { readonly id: number }[]
  await client.reached(history.at(-1)?.id ?? 0)
  t.strictSame(
    client.events.map(({ data }) => JSON.parse(data) as unknown),
    history,
  )
})

t.test('6.1 with Last-Event-ID every later line that is stored comes first, then the new ones', async (t) => {
  const { api, one, other } = await start(t)
  const { pool } = api.database
  const stored = [...(await writeLines(pool, one, 3)), ...(await writeLines(pool, other, 250))]
  const client = await EventClient.open(t, api.base, { lastEventId: stored[0] ?? 0 })
  const added = await writeLines(pool, one, 3)
  await client.reached(added.at(-1) ?? 0)
  t.strictSame(client.ids, [...stored.slice(1), ...added])
})

t.test('6.1 Last-Event-ID 0, the newest, one to come, and one that no line will ever have', async (t) => {
  const { api, one } = await start(t)
  const { pool } = api.database
  const stored = await writeLines(pool, one, 5)
  const newest = stored.at(-1) ?? 0
  const open = (lastEventId: string | number) => EventClient.open(t, api.base, { lastEventId })
  const all = await Promise.all([open(0), open('000'), open(newest)])
  const future = await Promise.all([open(newest + 50), open('9'.repeat(19)), open('9'.repeat(2_000))])
  const added = await writeLines(pool, one, 2)
  const last = added.at(-1) ?? 0
  await Promise.all([...all, ...future].map((each) => each.reached(last)))
  t.strictSame(
    all.map(({ ids }) => ids),
    [[...stored, ...added], [...stored, ...added], added],
  )
  t.strictSame(
    future.map(({ ids }) => ids),
    [added, added, added],
    'only lines added after the connection',
  )
})

t.test('6.1 a Last-Event-ID that is not a whole number is 400', async (t) => {
  const { api } = await start(t)
  for (const value of ['-1', '1.5', 'abc', '1e3', '0x10', '1 2', '+1', '']) {
    const answer = await api.client.get('/events', { headers: { 'last-event-id': value } })
    t.equal(answer.status, 400, JSON.stringify(value))
    t.strictSame(answer.error?.details, { 'Last-Event-ID': 'must be a whole number' })
  }
  t.equal(api.events.tail.readers, 0)
})

t.test('4.2 message_id: lines of one message alone, also of those that are stored', async (t) => {
  const { api, one, other } = await start(t)
  const { pool } = api.database
  const stored: number[] = []
  const others: number[] = []
  for (let round = 0; round < 5; round += 1) {
    stored.push(...(await writeLines(pool, one, 30)))
    others.push(...(await writeLines(pool, other, 300)))
  }
  const replayed = await EventClient.open(t, api.base, {
    lastEventId: stored[0] ?? 0,
    messageId: one.toUpperCase(),
  })
  const live = await EventClient.open(t, api.base, { messageId: one })
  const unknown = await EventClient.open(t, api.base, {
    lastEventId: 0,
    messageId: '0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68',
  })
  const everything = await EventClient.open(t, api.base)
  const added: number[] = []
  for (let round = 0; round < 5; round += 1) {
    await writeLines(pool, other, 2)
    added.push(...(await writeLines(pool, one, 2)))
    await writeLines(pool, other, 2)
  }
  await Promise.all([replayed, live].map((each) => each.reached(added.at(-1) ?? 0)))
  await everything.reached((added.at(-1) ?? 0) + 2)
  t.strictSame(replayed.ids, [...stored.slice(1), ...added])
  t.strictSame(live.ids, added)
  t.strictSame(unknown.events, [], 'an unknown message has no lines')
  t.equal(everything.ids.length, 30)
  t.ok(others.length > 1_000, 'lines of other messages do not count as missed')

  for (const value of ['', 'x', `${one}0`, `${one}&message_id=${other}`]) {
    const answer = await api.client.get(`/events?message_id=${value}`)
    t.equal(answer.status, 400, value)
    t.strictSame(Object.keys(answer.error?.details ?? {}), ['message_id'])
  }
})

t.test('6.1 reload when more than 1,000 lines were missed', async (t) => {
  const { api, one, other } = await start(t)
  const { pool } = api.database
  const [first = 0] = await writeLines(pool, one)
  const stored = await writeLines(pool, one, 1_001)
  const exactly = await EventClient.open(t, api.base, { lastEventId: stored[0] ?? 0 })
  await exactly.reached(stored.at(-1) ?? 0)
  t.strictSame(exactly.ids, stored.slice(1), '1,000 are sent again')

  for (const messageId of [undefined, one]) {
    const missed = { lastEventId: first, ...(messageId === undefined ? {} : { messageId }) }
    const client = await EventClient.open(t, api.base, missed)
    t.equal(await client.over(), 'complete')
    const [reload, ...rest] = client.events
    t.strictSame(rest, [], 'one event')
    t.equal(reload?.event, 'reload')
    t.equal(reload?.lastEventId, '', 'a browser that connects again by itself asks for new lines alone')
    t.strictSame(JSON.parse(reload?.data ?? ''), { reason: 'missed' })
  }
  const none = await EventClient.open(t, api.base, { lastEventId: first, messageId: other })
  const [added = 0] = await writeLines(pool, other)
  await none.reached(added)
  t.strictSame(none.ids, [added], 'of another message nothing was missed')
})

t.test('6.1 any text travels as one line of data', async (t) => {
  const { api, one } = await start(t)
  const texts = [
    'a\nb\r\nc\rd',
    'id: 5\n\nevent: reload\ndata: x',
    '\u2028\u2029 ü 漢字 🚚',
    '',
    ':',
    'x'.repeat(300_000),
  ]
  const client = await EventClient.open(t, api.base)
  for (const text of texts) await writeLines(api.database.pool, one, 1, text)
  const [last = 0] = await writeLines(api.database.pool, one)
  await client.reached(last)
  const received = client.events.map(({ data }) => (JSON.parse(data) as { text: string }).text)
  t.strictSame(received, [...texts, 'again'])
})
