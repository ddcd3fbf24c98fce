import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import t from 'tap'
import { query } from '../../../storage/postgres/pool.ts'
import { until } from '../../support/processes.ts'
import { reservePort } from '../../support/reserved-port.ts'
import { answering, header, startWebServer, take } from '../http/web-server.ts'
import { LIMIT_MS, SOON, startNotifying, told } from './notifying.ts'

/** What a notifier makes of a failure: when it posts again, and what it does until then. */

// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(900_000)

const notifying = await startNotifying(t)
const web = await startWebServer(t)
const { pool } = notifying.api.database

t.test('a failure of the server is repeated: the same body with the same webhook-id', async (t) => {
  await notifying.configure(t, 'later', { url: `${web.url}/later`, ...SOON })
  await notifying.start('later')
  web.behave('/later', answering(500, 408, 425, 429, 503, 200))
  await notifying.raise('a')
  const [row] = await notifying.untilOutcomes('later', 'delivered')
  t.match(row, { attempts: 6, last_error: null })
  const requests = web.received('/later')
  t.equal(requests.length, 6)
  t.equal(new Set(requests.map((request) => header(request, 'webhook-id'))).size, 1)
  t.equal(new Set(requests.map(({ body }) => body.toString())).size, 1)
})

t.test('repeats end with the last attempt, and the row says why', async (t) => {
  await notifying.configure(t, 'ends', { url: `${web.url}/ends`, ...SOON, retry_max_attempts: 2 })
  await notifying.start('ends')
  web.behave('/ends', answering(502))
  await notifying.raise('a')
  const [row] = await notifying.untilOutcomes('ends', 'failed')
  t.match(row, { attempts: 2, last_error: /502 Bad Gateway/, delivered_at: null })
  t.equal(web.received('/ends').length, 2)
})

t.test('a post is repeated no sooner than Retry-After says, nor than the settings do', async (t) => {
  /** When the repeat is due, in seconds after the alert was raised. */
  const due = async (name: string): Promise<number> => {
    let seconds: number | null = null
    await until(async () => {
      const [row] = await query<{ seconds: number }>(
        pool,
        `select extract(epoch from due_at - raised_at)::float8 as seconds
         from notification where instance = $1 and due_at is not null`,
        [name],
      )
      seconds = row?.seconds ?? null
      return seconds !== null
    }, LIMIT_MS)
    return seconds ?? 0
  }
  const inFiftyMinutes = new Date(Date.now() + 3_000_000).toUTCString()
  const cases = [
    { name: 'seconds', status: 503, retryAfter: '600', waits: [1, 3600], least: 600, most: 1200 },
    { name: 'date', status: 429, retryAfter: inFiftyMinutes, waits: [1, 3600], least: 2700, most: 3600 },
    { name: 'beyond', status: 429, retryAfter: '6000', waits: [1, 2], least: 6000, most: 6600 },
    { name: 'day', status: 503, retryAfter: '99999999', waits: [1, 700], least: 86_400, most: 87_000 },
    { name: 'short', status: 429, retryAfter: '0', waits: [3000, 3600], least: 3000, most: 4200 },
    ...[500, 502, 504, 408, 425].map((status) => ({
      name: `status-${status}`,
      status,
      retryAfter: '600',
      waits: [1, 3600],
      least: 600,
      most: 1200,
    })),
  ] as const
  for (const { name, status, retryAfter, waits } of cases) {
    await notifying.configure(t, name, {
      url: `${web.url}/${name}`,
      retry_initial_seconds: waits[0],
      retry_max_seconds: waits[1],
    })
    web.behave(`/${name}`, async (request, response, received) => {
      await take(request, received)
      response.writeHead(status, { 'retry-after': retryAfter }).end()
    })
    await notifying.start(name)
  }
  await notifying.raise('a')
  for (const { name, least, most } of cases) {
    const seconds = await due(name)
    t.ok(seconds >= least && seconds < most, `${name}: ${seconds}`)
    t.equal(web.received(`/${name}`).length, 1)
  }
})

t.test(
  'after a failure the notifier rests, and posts tests alone; one that arrives ends the rest',
  async (t) => {
    await notifying.configure(t, 'paused', { url: `${web.url}/paused` })
    web.behave('/paused', async (request, response, received) => {
      await take(request, received)
      if (received.length === 1) response.writeHead(503, { 'retry-after': '3600' })
      response.end()
    })
    await notifying.start('paused')
    await notifying.raise('a')
    await notifying.raise('b')
    await until(async () => typeof (await notifying.rows('paused'))[0]?.last_error === 'string', LIMIT_MS)
    const test = await notifying.api.client.post('/plugins/configs/notification-webhook/paused/test')
    t.match(test.data, { test: true })
    await notifying.untilOutcomes('paused', 'delivered', 'delivered', 'delivered')
    const [first, second, ...others] = told(web.received('/paused'))
    t.same([first, second], ['a', 'paused'])
    t.same(others.toSorted(), ['a', 'b'])
  },
)

t.test(
  'an alert whose repeat is far off holds up no other, and is repeated when another arrives',
  async (t) => {
    await notifying.configure(t, 'far', {
      url: `${web.url}/far`,
      retry_initial_seconds: 1,
      retry_max_seconds: 86_400,
      retry_max_attempts: 100,
    })
    web.behave('/far', answering(500, 200))
    await notifying.raise('a')
    // As if it had been tried often: then the next repeat is half a day off at least.
    await query(pool, `update notification set attempts = 30 where instance = 'far'`)
    await notifying.start('far')
    await until(async () => typeof (await notifying.rows('far'))[0]?.last_error === 'string', LIMIT_MS)
    await notifying.raise('b')
    await notifying.untilOutcomes('far', 'delivered', 'delivered')
    t.same(told(web.received('/far')), ['a', 'b', 'a'])
  },
)

t.test('after an answer that fails a post for good the notifier rests as well', async (t) => {
  await notifying.configure(t, 'refused', { url: `${web.url}/refused`, retry_initial_seconds: 3600 })
  web.behave('/refused', answering(404, 200))
  await notifying.start('refused')
  await notifying.raise('a')
  await notifying.raise('b')
  await notifying.untilOutcomes('refused', 'failed', 'queued')
  await notifying.api.client.post('/plugins/configs/notification-webhook/refused/test')
  await notifying.untilOutcomes('refused', 'failed', 'delivered', 'delivered')
  t.same(told(web.received('/refused')), ['a', 'refused', 'b'])
})

t.test('a start repeats at once what waits for its repeat', async (t) => {
  await notifying.configure(t, 'restarted', { url: `${web.url}/restarted` })
  web.behave('/restarted', async (request, response, received) => {
    await take(request, received)
    if (received.length === 1) response.writeHead(503, { 'retry-after': '3600' })
    response.end()
  })
  await notifying.start('restarted')
  await notifying.raise('a')
  await until(async () => typeof (await notifying.rows('restarted'))[0]?.last_error === 'string', LIMIT_MS)
  await notifying.stop('restarted')
  await notifying.start('restarted')
  await notifying.untilOutcomes('restarted', 'delivered')
  t.same(told(web.received('/restarted')), ['a', 'a'])
})

t.test('a message that Teams has refused behind the 200 of its webhook is not delivered', async (t) => {
  const sentence = (status: number): string =>
    `Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error ${status} with ContextId tcid=0`
  for (const format of ['teams', 'generic'])
    await notifying.configure(t, `behind-${format}`, { url: `${web.url}/behind-${format}`, format, ...SOON })
  const answers = [sentence(429), sentence(502), '1', sentence(403), 'Webhook message delivered']
  for (const format of ['teams', 'generic']) {
    web.behave(`/behind-${format}`, async (request, response, received) => {
      await take(request, received)
      response.end(answers[received.length - 1])
    })
    await notifying.start(`behind-${format}`)
  }
  await notifying.raise('a')
  const [a] = await notifying.untilOutcomes('behind-teams', 'delivered')
  t.match(a, { attempts: 3 }, 'as if it were the status of the answer')
  await notifying.raise('b')
  const [, b] = await notifying.untilOutcomes('behind-teams', 'delivered', 'failed')
  t.match(b, { attempts: 1, last_error: 'The server answered 403 Forbidden' })
  await notifying.raise('c')
  await notifying.untilOutcomes('behind-teams', 'delivered', 'failed', 'delivered')
  t.match(await notifying.untilOutcomes('behind-generic', 'delivered', 'delivered', 'delivered'), [
    { attempts: 1 },
    { attempts: 1 },
    { attempts: 1 },
  ])
})

t.test('an answer whose body does not end is what its status says', async (t) => {
  await notifying.configure(t, 'endless', { url: `${web.url}/endless`, ...SOON })
  const open: ServerResponse[] = []
  web.behave('/endless', async (request, response, received) => {
    await take(request, received)
    open.push(response)
    response.writeHead(received.length === 1 ? 503 : 200, { 'content-length': '10' })
    response.write('ok')
  })
  await notifying.start('endless')
  await notifying.raise('a')
  const [row] = await notifying.untilOutcomes('endless', 'delivered')
  t.match(row, { attempts: 2 })
  // Nobody but us has ended them.
  await until(() => open.every(({ destroyed }) => destroyed), LIMIT_MS)
  t.equal(open.length, 2)
})

t.test('no connection is kept between alerts, so none is lost meanwhile', async (t) => {
  await notifying.configure(t, 'fresh', { url: `${web.url}/fresh`, ...SOON, cooldown_minutes: 0 })
  const connections = new Set<Socket>()
  web.behave('/fresh', async (request, response, received) => {
    // What a forgotten connection is answered with.
    if (connections.has(request.socket)) return void request.socket.resetAndDestroy()
    connections.add(request.socket)
    await take(request, received)
    response.end()
  })
  await notifying.start('fresh')
  for (const name of ['a', 'b', 'c']) await notifying.raise(name)
  const rows = await notifying.untilOutcomes('fresh', 'delivered', 'delivered', 'delivered')
  for (const row of rows) t.match(row, { attempts: 1 })
})

t.test('a server that nobody reaches is tried again, and no part of its address is told', async (t) => {
  const { host, port } = await reservePort()
  const url = `http://${host}:${port}/hunter2`
  await notifying.configure(t, 'away', { url, ...SOON, retry_max_attempts: 2 })
  await notifying.start('away')
  await notifying.raise('a')
  const [row] = await notifying.untilOutcomes('away', 'failed')
  t.match(row, { attempts: 2, last_error: /ECONNREFUSED/ })
  t.notMatch(row?.last_error, host)
  t.notMatch(row?.last_error, 'hunter2')
})
