import { randomBytes } from 'node:crypto'
import t from 'tap'
import { makeCertificate } from '../../support/certificates.ts'
import { until } from '../../support/processes.ts'
import { reservePort } from '../../support/reserved-port.ts'
import { SOON, startPosting } from './posting.ts'
import { startWebServer, take } from './web-server.ts'

const MIB = 1024 * 1024
const LIMIT_MS = 120_000
// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(900_000)

const posting = await startPosting(t)
const web = await startWebServer(t)

t.test('no connection and no trusted certificate are repeated with their reason', async (t) => {
  const { host, port } = await reservePort()
  await posting.start('closed', { url: `http://${host}:${port}/` })
  const closed = await posting.accept('closed', Buffer.from('payload'))
  t.match(await posting.untilIn('closed', closed, 'retrying'), { last_error: /ECONNREFUSED/ })

  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'nobody knows it' })
  const secure = await startWebServer(t, { cert: certificatePem, key: privateKeyPem })
  await posting.start('secure', { url: `${secure.url}/in` })
  const untrusted = await posting.accept('secure', Buffer.from('payload'))
  t.match(await posting.untilIn('secure', untrusted, 'retrying'), { last_error: /certificate/ })
  t.same(secure.received('/in'), [])
})

t.test('a server that does not answer, or does not take the body, is given up in time', async (t) => {
  const silent = { response_timeout_seconds: 1 }
  await posting.start('silent', { url: `${web.url}/silent`, ...silent })
  web.behave('/silent', (request, _response, received) => take(request, received))
  const small = await posting.accept('silent', Buffer.from('payload'))
  t.match(await posting.untilIn('silent', small, 'retrying'), { last_error: /No answer within 1 s/ })

  await posting.start('full', { url: `${web.url}/full`, ...silent })
  web.behave('/full', () => undefined)
  const large = await posting.accept('full', Buffer.alloc(32 * MIB))
  t.match(await posting.untilIn('full', large, 'retrying'), { last_error: /No answer within 1 s/ })
})

t.test('an endless answer is cut off and changes nothing', async (t) => {
  await posting.start('endless', { url: `${web.url}/endless` })
  let closed = false
  web.behave('/endless', async (request, response, received) => {
    await take(request, received)
    response.on('close', () => void (closed = true))
    response.writeHead(200)
    const more = (): void => {
      if (!closed) response.write(Buffer.alloc(16_384), () => setImmediate(more))
    }
    more()
  })
  const id = await posting.accept('endless', Buffer.from('payload'))
  t.match(await posting.untilIn('endless', id, 'delivered'), { attempts: 1 })
  await until(() => closed, LIMIT_MS)
})

t.test('link-local addresses and metadata services are never connected to', async (t) => {
  for (const [name, url] of [
    ['link-local', 'http://169.254.169.254/latest/meta-data/'],
    ['number', 'http://2852039166/'],
    ['mapped', 'http://[::ffff:169.254.169.254]/'],
    ['six', 'http://[fe80::1]/'],
  ] as const) {
    await posting.start(name, { url, ...SOON })
    const id = await posting.accept(name, Buffer.from('payload'))
    t.match(await posting.untilIn(name, id, 'failed'), { attempts: 1, last_error: /link-local/ }, url)
  }
})

t.test('a payload that is damaged in the store is never sent whole', async (t) => {
  await posting.start('damaged', { url: `${web.url}/damaged`, ...SOON, retry_max_attempts: 1 })
  const bytes = randomBytes(MIB)
  const other = randomBytes(MIB)
  const id = await posting.accept('damaged', bytes, {
    stages: [{ stage: 'unpacked', bytes: null, size_bytes: bytes.length, sha256: 'ab'.repeat(32) }],
  })
  t.match(await posting.untilIn('damaged', id, 'failed'), { last_error: /differs from what was stored/ })
  const whole = await posting.accept('damaged', other)
  await posting.untilIn('damaged', whole, 'delivered')
  t.equal(web.received('/damaged').length, 1, 'the request of the damaged one never ended')
  t.ok(web.received('/damaged')[0]?.body.equals(other))
})

t.test('no more requests are under way than the settings allow', async (t) => {
  await posting.start('two', { url: `${web.url}/two`, max_concurrent_deliveries: 2 })
  let open = 0
  let most = 0
  const both = Promise.withResolvers<void>()
  web.behave('/two', async (request, response, received) => {
    open += 1
    most = Math.max(most, open)
    if (open === 2) both.resolve()
    await take(request, received)
    await both.promise
    open -= 1
    response.end()
  })
  const ids = await Promise.all(
    Array.from({ length: 6 }, () => posting.accept('two', Buffer.from('payload'))),
  )
  for (const id of ids) await posting.untilIn('two', id, 'delivered')
  t.equal(most, 2)
})
