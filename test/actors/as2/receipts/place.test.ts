import t from 'tap'
import { HttpClient } from '../../../../actors/as2/sending/http-client.ts'
import { allowedPlaces, isHopeless, receiptPlace } from '../../../../actors/as2/receipts/place.ts'
import { httpServer } from '../../../support/partner-server.ts'

const NONE = allowedPlaces([])
const ENDPOINT = 'https://as2.partner.example/in'

t.test('a receipt goes to http and https URLs without credentials, and to nothing else', async (t) => {
  const place = (url: string) => receiptPlace(url, { endpoint: ENDPOINT, allowed: NONE })
  for (const url of [
    'ftp://as2.partner.example/',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'mailto:edi@partner.example',
    '//as2.partner.example/',
    '/receipts',
    'http://',
    'https://user:secret@as2.partner.example/',
    'https://user@as2.partner.example/',
    `https://as2.partner.example/${'x'.repeat(2_048)}`,
  ]) {
    t.equal(place(url), null, url.slice(0, 60))
  }
  const found = place('HTTPS://AS2.Partner.Example:8443/receipts?party=globex&n=1#top')
  t.equal(found?.url.href, 'https://as2.partner.example:8443/receipts?party=globex&n=1')
})

const INNER = [
  '127.0.0.1',
  '10.1.2.3',
  '172.16.0.1',
  '192.168.1.1',
  '100.64.0.1',
  '0.0.0.0',
  '224.0.0.1',
  '[::1]',
  '[::]',
  '[fd00::1]',
  '[::ffff:10.1.2.3]',
  '[::ffff:7f00:1]',
  '2130706433',
  '0x7f.1',
  '017700000001',
  'localhost',
  'LOCALHOST.',
  'db.localhost',
]
const NEVER = ['169.254.169.254', '169.254.1.1', '[fe80::1]', '[fd00:ec2::254]', '[::ffff:169.254.169.254]']

t.test('nothing inner, and never what a machine tells about itself', async (t) => {
  const isRefused = (host: string, allowed = NONE, endpoint: string | null = ENDPOINT): boolean => {
    const place = receiptPlace(`http://${host}/x`, { endpoint, allowed })
    return place === null || isHopeless(place)
  }
  for (const host of [...INNER, ...NEVER]) t.ok(isRefused(host), host)
  for (const host of ['192.0.2.1', '8.8.8.8', '[2001:db8::1]', 'as2.other.example'])
    t.notOk(isRefused(host), host)
  const all = allowedPlaces(['0.0.0.0/0', '::/0', ...INNER, 'localhost', 'localhost.', 'db.localhost'])
  for (const host of INNER) t.notOk(isRefused(host, all), `${host} when it is allowed`)
  for (const host of NEVER) t.ok(isRefused(host, all), `${host} though it is allowed`)
  t.notOk(isRefused('10.1.2.3', NONE, 'http://10.1.2.3:10080/as2'), "the partner's own host")
  t.ok(isRefused('10.1.2.4', NONE, 'http://10.1.2.3:10080/as2'), 'another host')
  t.ok(isRefused('10.1.2.3', NONE, null), 'of nobody')
  const some = allowedPlaces(['10.1.0.0/16', 'db.localhost'])
  t.same(
    ['10.1.9.9', '10.2.0.1', 'db.localhost', 'localhost'].map((host) => isRefused(host, some)),
    [false, true, false, true],
  )
})

t.test("what a profile keeps secret goes to the partner's own host alone, and not in clear", async (t) => {
  const own = (url: string, endpoint: string | null) =>
    receiptPlace(url, { endpoint, allowed: allowedPlaces(['receipts.example']) })?.isPartner
  t.equal(own('https://as2.partner.example:9443/r', ENDPOINT), true)
  t.equal(own('http://as2.partner.example/r', ENDPOINT), false, 'the endpoint is https')
  t.equal(own('http://as2.partner.example/r', 'http://as2.partner.example/in'), true)
  t.equal(own('https://as2.partner.example.evil.example/r', ENDPOINT), false)
  t.equal(own('https://receipts.example/r', ENDPOINT), false, 'allowed, and still not the partner')
  t.equal(own('https://as2.partner.example/r', null), false)
})

t.test('where a name leads is looked at when it is connected to', async (t) => {
  let requests = 0
  const { port } = await httpServer(t, (_, response) => {
    requests += 1
    response.end()
  })
  const post = (isRefused: (address: string) => boolean) => {
    // What one request may connect to, others of its client may, too: each rule has a client of its own.
    const client = new HttpClient(1)
    t.teardown(() => client.close())
    return client.post({
      url: `http://localhost:${port}/`,
      tls: {},
      headers: [],
      body: Buffer.from('a receipt'),
      connectTimeoutMs: 30_000,
      responseTimeoutMs: 30_000,
      isRefused,
      signal: new AbortController().signal,
    })
  }
  const strange = receiptPlace('http://receipts.example/', { endpoint: ENDPOINT, allowed: NONE })
  if (strange === null) throw new Error('It is a place')
  await t.rejects(post(strange.isRefused))
  t.equal(requests, 0)
  const allowed = allowedPlaces(['127.0.0.0/8', '::1'])
  const known = receiptPlace('http://receipts.example/', { endpoint: ENDPOINT, allowed })
  if (known === null) throw new Error('It is a place')
  t.equal((await post(known.isRefused)).status, 200)
  t.equal(requests, 1)
})
