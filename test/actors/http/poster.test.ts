import { createHmac, randomBytes } from 'node:crypto'
import t from 'tap'
import { SOON, startPosting } from './posting.ts'
import { answering, header, startWebServer, take } from './web-server.ts'

const MIB = 1024 * 1024
// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(900_000)

const posting = await startPosting(t)
const web = await startWebServer(t)

t.test('a payload is posted as it is, and a 2xx is a delivery', async (t) => {
  await posting.start('plain', { url: `${web.url}/plain?branch=5` })
  web.behave('/plain?branch=5', answering(202))
  const bytes = randomBytes(5000)
  const id = await posting.accept('plain', bytes)
  t.match(await posting.untilIn('plain', id, 'delivered'), { attempts: 1, last_error: null })
  const [request, ...others] = web.received('/plain?branch=5')
  t.same(others, [])
  t.equal(request?.method, 'POST')
  t.ok(request?.body.equals(bytes))
  t.equal(header(request, 'host'), new URL(web.url).host)
  t.equal(header(request, 'content-length'), '5000')
  t.equal(header(request, 'transfer-encoding'), undefined)
  t.equal(header(request, 'content-type'), 'application/edifact')
  t.equal(header(request, 'user-agent'), 'Waybill/test')
  t.match(header(request, 'webhook-id'), new RegExp(`^${id}-\\d+$`))
  t.equal(header(request, 'webhook-signature'), undefined)
  t.equal(header(request, 'authorization'), undefined)
})

t.test('method, content type, basic authentication and headers are those of the settings', async (t) => {
  await posting.start('settings', {
    url: `${web.url}/settings`,
    method: 'PUT',
    content_type: 'text/plain; charset=utf-8',
    http_basic_username: 'waybill',
    http_basic_password: 'pässword: with a colon',
    http_headers: [
      { name: 'X-Tenant', value: 'acme' },
      { name: 'X-Tenant', value: 'second' },
      { name: 'User-Agent', value: 'ERP/1' },
    ],
  })
  const id = await posting.accept('settings', Buffer.from('payload'))
  await posting.untilIn('settings', id, 'delivered')
  const [request] = web.received('/settings')
  t.equal(request?.method, 'PUT')
  t.equal(header(request, 'content-type'), 'text/plain; charset=utf-8')
  t.equal(header(request, 'user-agent'), 'ERP/1')
  t.same(
    request?.headers.filter(([name]) => name === 'x-tenant'),
    [
      ['x-tenant', 'acme'],
      ['x-tenant', 'second'],
    ],
  )
  const credential = header(request, 'authorization')?.replace('Basic ', '') ?? ''
  t.equal(Buffer.from(credential, 'base64').toString('utf8'), 'waybill:pässword: with a colon')
})

t.test('a media type that no header can carry is sent as bytes of any kind', async (t) => {
  await posting.start('odd', { url: `${web.url}/odd` })
  const id = await posting.accept('odd', Buffer.from('payload'), { contentType: 'text/plain; name="ü"' })
  await posting.untilIn('odd', id, 'delivered')
  t.equal(header(web.received('/odd')[0], 'content-type'), 'application/octet-stream')
})

t.test('a signing secret signs each post by Standard Webhooks, whatever its size', async (t) => {
  const key = randomBytes(32)
  const signing_secret = `whsec_${key.toString('base64')}`
  await posting.start('signed', { url: `${web.url}/signed`, signing_secret })
  for (const bytes of [Buffer.alloc(0), Buffer.from('small'), randomBytes(3 * MIB + 1)]) {
    const began = Math.floor(Date.now() / 1000)
    const id = await posting.accept('signed', bytes)
    await posting.untilIn('signed', id, 'delivered')
    const request = web.received('/signed').at(-1)
    t.ok(request?.body.equals(bytes), `${bytes.length} bytes`)
    const timestamp = Number(header(request, 'webhook-timestamp'))
    t.ok(timestamp >= began && timestamp <= Date.now() / 1000)
    const signed = createHmac('sha256', key).update(`${header(request, 'webhook-id')}.${timestamp}.`)
    t.equal(header(request, 'webhook-signature'), `v1,${signed.update(bytes).digest('base64')}`)
  }
})

t.test('a failure of the server is repeated with the same webhook-id', async (t) => {
  await posting.start('later', { url: `${web.url}/later`, ...SOON })
  web.behave('/later', answering(500, 408, 425, 429, 200))
  const id = await posting.accept('later', Buffer.from('payload'))
  t.match(await posting.untilIn('later', id, 'delivered'), { attempts: 5 })
  const requests = web.received('/later')
  t.equal(requests.length, 5)
  t.equal(new Set(requests.map((request) => header(request, 'webhook-id'))).size, 1)
})

t.test('repeats end with the last attempt', async (t) => {
  await posting.start('ends', { url: `${web.url}/ends`, ...SOON, retry_max_attempts: 2 })
  web.behave('/ends', answering(502))
  const id = await posting.accept('ends', Buffer.from('payload'))
  t.match(await posting.untilIn('ends', id, 'failed'), { attempts: 2, last_error: /502 Bad Gateway/ })
})

t.test('what the server refuses is failed at once', async (t) => {
  await posting.start('refused', { url: `${web.url}/refused`, ...SOON })
  web.behave('/refused', answering(400, 401, 404, 410, 422))
  for (const status of [400, 401, 404, 410, 422]) {
    const id = await posting.accept('refused', Buffer.from('payload'))
    const delivery = await posting.untilIn('refused', id, 'failed')
    t.match(delivery, { attempts: 1, last_error: new RegExp(`answered ${status} `) })
  }
  t.equal(web.received('/refused').length, 5)
})

t.test('a refusal before the whole body is sent counts', async (t) => {
  await posting.start('early', { url: `${web.url}/early`, ...SOON })
  web.behave('/early', (_request, response) => void response.writeHead(413).end())
  const id = await posting.accept('early', Buffer.alloc(4 * MIB))
  t.match(await posting.untilIn('early', id, 'failed'), { attempts: 1, last_error: /413/ })
})

t.test('a redirect is failed with that reason and not followed', async (t) => {
  await posting.start('moved', { url: `${web.url}/moved`, ...SOON })
  const statuses = [301, 302, 307, 308]
  for (const status of statuses) {
    web.behave('/moved', async (request, response, received) => {
      await take(request, received)
      response.writeHead(status, { location: `${web.url}/elsewhere` }).end()
    })
    const id = await posting.accept('moved', Buffer.from('payload'))
    t.match(await posting.untilIn('moved', id, 'failed'), {
      attempts: 1,
      last_error: /redirects are not followed/,
    })
  }
  t.equal(web.received('/moved').length, statuses.length)
  t.same(web.received('/elsewhere'), [])
})

t.test('Retry-After of what is repeated is waited for, as long as the longest wait allows', async (t) => {
  const next = async (name: string, status: number, retryAfter: string, waits: [number, number]) => {
    await posting.start(name, {
      url: `${web.url}/${name}`,
      retry_initial_seconds: waits[0],
      retry_max_seconds: waits[1],
    })
    web.behave(`/${name}`, async (request, response, received) => {
      await take(request, received)
      response.writeHead(status, { 'retry-after': retryAfter }).end()
    })
    const beganMs = Date.now()
    const id = await posting.accept(name, Buffer.from('payload'))
    const { next_attempt_at } = await posting.untilIn(name, id, 'retrying')
    const at = Date.parse(next_attempt_at ?? '')
    return { leastS: (at - Date.now()) / 1000, mostS: (at - beganMs) / 1000 }
  }
  const seconds = await next('seconds', 503, '600', [1, 3600])
  t.ok(seconds.leastS <= 600 && seconds.mostS >= 500, `${seconds.leastS} to ${seconds.mostS}`)
  const other = await next('other', 500, '600', [1, 3600])
  t.ok(other.leastS <= 600 && other.mostS >= 500, `${other.leastS} to ${other.mostS}`)
  const date = await next('date', 429, new Date(Date.now() + 3_000_000).toUTCString(), [1, 3600])
  t.ok(date.leastS <= 3000 && date.mostS >= 2900, `${date.leastS} to ${date.mostS}`)
  const bounded = await next('bounded', 503, '86400', [1, 700])
  t.ok(bounded.leastS <= 700 && bounded.mostS >= 600, `${bounded.leastS} to ${bounded.mostS}`)
  const short = await next('short', 429, '0', [600, 3600])
  t.ok(short.leastS <= 600 && short.mostS >= 200, 'never sooner than the settings say')
})

t.test('a network that the settings refuse is not connected to, and is refused at once', async (t) => {
  await posting.start('refusing', { url: `${web.url}/refusing`, refused_networks: ['127.0.0.0/8'] })
  const id = await posting.accept('refusing', Buffer.from('payload'))
  t.match(await posting.untilIn('refusing', id, 'failed'), { attempts: 1, last_error: /settings refuse/ })
  t.same(web.received('/refusing'), [])
  const answer = await posting.api.client.post('/plugins/configs?type=http-poster', {
    name: 'mistaken',
    url: `${web.url}/`,
    refused_networks: ['10.0.0.0/40'],
  })
  t.equal(answer.status, 400)
})
