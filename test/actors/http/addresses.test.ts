import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import t from 'tap'
import {
  allowedLookup,
  isRefusedAddress,
  parseNetwork,
  refuseAddressOf,
  refusing,
} from '../../../actors/http/addresses.ts'

t.test('link-local addresses and metadata services are refused, however they are written', async (t) => {
  for (const address of [
    '169.254.0.1',
    '169.254.169.254',
    '169.254.170.2',
    '169.254.255.255',
    '100.100.100.200',
    '168.63.129.16',
    'fe80::1',
    'fe80::1%eth0',
    'febf:ffff::1',
    'fd00:ec2::254',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '0:0:0:0:0:ffff:a9fe:1',
    '::169.254.169.254',
    '64:ff9b::169.254.169.254',
    '2002:a9fe:a9fe::1',
    '::ffff:100.100.100.200',
  ]) {
    t.ok(isRefusedAddress(address), address)
  }
  t.ok(isRefusedAddress('not an address'), 'what is no address is not connected to either')
})

t.test('loopback, private and public addresses are where systems of operators are', async (t) => {
  for (const address of [
    '127.0.0.1',
    '::1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.1.1',
    '169.253.255.255',
    '169.255.0.0',
    '100.100.100.201',
    '203.0.113.7',
    'fd12:3456::1',
    'fec0::1',
    '2001:db8::1',
    '::ffff:127.0.0.1',
    '::ffff:169.253.0.1',
  ]) {
    t.notOk(isRefusedAddress(address), address)
  }
})

t.test('a URL whose host is such an address is refused before anything is looked up', async (t) => {
  for (const url of [
    'http://169.254.169.254/latest/meta-data',
    'http://[fe80::1]:8080/',
    'http://[::ffff:169.254.169.254]/',
    'http://2852039166/',
    'http://0xa9fea9fe/',
    'https://0251.0376.0251.0376/',
  ]) {
    t.throws(() => refuseAddressOf(new URL(url)), { name: 'PermanentFailure' }, url)
  }
  for (const url of ['http://127.0.0.1:8080/', 'http://[::1]/', 'https://example.com/'])
    t.doesNotThrow(() => refuseAddressOf(new URL(url)), url)
})

/** What the look-up answers for a host that has these addresses. */
function looked(addresses: readonly LookupAddress[], all: boolean): Promise<unknown> {
  const lookup = allowedLookup((_host, _options, answer) => answer(null, addresses))
  return new Promise((resolve, reject) => {
    lookup('partner.example', { all }, (error, found, family) =>
      error === null ? resolve(all ? found : [found, family]) : reject(error),
    )
  })
}

t.test('a name is looked up without the addresses that are refused', async (t) => {
  const loopback = { address: '127.0.0.1', family: 4 }
  const linkLocal = { address: '169.254.169.254', family: 4 }
  const mapped = { address: '::ffff:169.254.169.254', family: 6 }
  t.same(await looked([linkLocal, loopback, mapped], true), [loopback])
  t.same(await looked([linkLocal, loopback], false), ['127.0.0.1', 4])
  for (const all of [true, false]) {
    await t.rejects(looked([linkLocal, mapped], all), {
      name: 'PermanentFailure',
      message: /partner\.example/,
    })
    await t.rejects(looked([], all), { name: 'PermanentFailure' })
  }
})

t.test('a name is looked up once: the connection goes to the address that was checked', async (t) => {
  const server = createServer((_request, response) => response.end('here')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  // The second answer would lead to the metadata service.
  const answers = ['127.0.0.1', '169.254.169.254']
  let asked = 0
  const lookup = allowedLookup((_host, _options, answer) =>
    answer(null, [{ address: answers[asked++] ?? '', family: 4 }]),
  )
  const status = await new Promise((resolve, reject) => {
    request(`http://rebinding.example:${port}/`, { lookup, agent: false }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    })
      .on('error', reject)
      .end()
  })
  t.equal(status, 200)
  t.equal(asked, 1)
})

t.test('an operator may refuse more networks, however their addresses are written', async (t) => {
  const isRefused = refusing(['10.0.0.0/8', '127.0.0.1', 'fd00::/8'])
  for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '127.0.0.1', 'fd12::1', '169.254.169.254', 'nothing'])
    t.ok(isRefused(address), address)
  for (const address of ['11.1.2.3', '127.0.0.2', '::1', 'fc00::1', '203.0.113.7'])
    t.notOk(isRefused(address), address)
  t.throws(() => refuseAddressOf(new URL('http://10.1.2.3/'), isRefused), {
    name: 'PermanentFailure',
    message: /settings/,
  })
  const lookup = allowedLookup(
    (_host, _options, answer) =>
      answer(null, [
        { address: '10.1.2.3', family: 4 },
        { address: '192.0.2.1', family: 4 },
      ]),
    isRefused,
  )
  const found = await new Promise((resolve, reject) => {
    lookup('partner.example', { all: true }, (error, addresses) =>
      error === null ? resolve(addresses) : reject(error),
    )
  })
  t.same(found, [{ address: '192.0.2.1', family: 4 }])
})

t.test('a network is an address, or one with the number of its leading bits', async (t) => {
  t.same(parseNetwork('10.0.0.0/8'), { address: '10.0.0.0', bits: 8 })
  t.same(parseNetwork('::1'), { address: '::1', bits: 128 })
  for (const text of [
    '',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0/8',
    'example.com',
    '10.0.0.0/',
    '/8',
    'fe80::1%eth0',
  ])
    t.equal(parseNetwork(text), null, text)
})
