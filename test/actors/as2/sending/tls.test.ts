import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { PeerCertificate, TLSSocket, TlsOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { setUpLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import type { ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

t.setTimeout(300_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })
const store = new As2Correspondent(waybill, loop)
// Whoever takes the transfer with 2xx has the message, and nothing is tried twice: a test sees the one attempt.
await store.profile('globex', { receipt_mode: 'None' })
await waybill.request('POST', '/plugins/configs?type=as2-sender', { name: 'once', retry_max_attempts: 1 })
await waybill.request('POST', '/services/as2-sender/once/start')

const root = makeCertificate({ commonName: 'root', authority: true })
const intermediate = makeCertificate({ commonName: 'intermediate', authority: true, issuer: root })
const server = makeCertificate({ commonName: 'globex', hosts: ['localhost', '127.0.0.1'], issuer: root })
const self = makeCertificate({ commonName: 'globex itself', hosts: ['localhost'] })
const elsewhere = makeCertificate({ commonName: 'elsewhere', hosts: ['as2.elsewhere.example'], issuer: root })
const client = makeCertificate({ commonName: 'acme client', issuer: intermediate })
await store.store(intermediate)
const ids = {
  root: await store.store(root),
  self: await store.store(self),
  client: await store.store(client, true),
}
const shows = ({ certificatePem, privateKeyPem }: typeof server) => ({
  cert: certificatePem,
  key: privateKeyPem,
})

interface Partner {
  readonly port: number
  readonly seen: { serverName: string; client: string; protocol: string | null }[]
}

async function startPartner(t: Test, options: TlsOptions): Promise<Partner> {
  const seen: Partner['seen'] = []
  const https = createServer(options, (request, response) => {
    const socket = request.socket as TLSSocket & { readonly servername?: string | false }
    seen.push({
      serverName: socket.servername === false ? '' : (socket.servername ?? ''),
      client: clientOf(socket),
      protocol: socket.getProtocol(),
    })
    request.resume().on('end', () => response.end())
  })
  https.on('tlsClientError', () => undefined)
  https.listen(0, '127.0.0.1')
  await once(https, 'listening')
  t.teardown(async () => {
    https.closeAllConnections()
    https.close()
  })
  return { port: (https.address() as AddressInfo).port, seen }
}

/** The common name of the certificate that a client has shown; empty for none. */
function clientOf(socket: TLSSocket): string {
  const { subject } = socket.getPeerCertificate() as Partial<PeerCertificate>
  return String(subject?.CN ?? '')
}

/** Sends a message under a change of the partner's profile; answers how its delivery ended. */
async function send(change: object): Promise<{ state: string; error: string }> {
  await store.profile('globex', change)
  const path = `/as2/remote-profiles/${loop.globex.partner}/test-message`
  const { message_id } = await waybill.request<{ message_id: string }>('POST', path, {
    sender: 'once',
    organization: 'acme',
  })
  let delivery: ExchangedMessage['deliveries'][number] | undefined
  await until(async () => {
    const message = await waybill.request<ExchangedMessage>('GET', `/messages/${message_id}`)
    delivery = message.deliveries[0]
    return ['delivered', 'failed'].includes(delivery?.state ?? '')
  })
  return { state: delivery?.state ?? '', error: delivery?.last_error ?? '' }
}

/** The check of a connection under a change of the partner's profile. */
async function checked(change: object): Promise<{ ok: boolean; problem: string | null }> {
  await store.profile('globex', change)
  const path = `/as2/remote-profiles/${loop.globex.partner}/check-connection`
  return waybill.request('POST', path, { sender: 'once' })
}

const PLAIN = { tls_ca_certificate_id: null, tls_client_certificate_id: null, tls_verify_host_name: true }

void t.test(
  "a server is checked against the profile's authority, and by the public ones without",
  async (t) => {
    const { port, seen } = await startPartner(t, shows(server))
    const endpoint = `https://localhost:${port}/as2`
    const unknown = await send({ ...PLAIN, endpoint })
    t.equal(unknown.state, 'failed')
    t.match(unknown.error, /^The TLS certificate of the server \(globex\) is of the unknown authority root: /)
    t.same(seen, [], 'nothing was sent to it')
    t.same(await send({ ...PLAIN, endpoint, tls_ca_certificate_id: ids.root }), {
      state: 'delivered',
      error: '',
    })
    t.match(seen, [{ serverName: 'localhost', protocol: 'TLSv1.3' }], 'it is told which host is meant')
  },
)

void t.test("the server's own certificate may be what is trusted", async (t) => {
  const { port, seen } = await startPartner(t, shows(self))
  const endpoint = `https://localhost:${port}/as2`
  t.equal((await send({ ...PLAIN, endpoint, tls_ca_certificate_id: ids.root })).state, 'failed')
  t.equal((await send({ ...PLAIN, endpoint, tls_ca_certificate_id: ids.self })).state, 'delivered')
  t.equal(seen.length, 1)
})

void t.test('the certificate must be for the host, unless the profile lets any name pass', async (t) => {
  const { port, seen } = await startPartner(t, shows(elsewhere))
  const change = { ...PLAIN, endpoint: `https://localhost:${port}/as2`, tls_ca_certificate_id: ids.root }
  t.match((await send(change)).error, /is not for localhost: .*as2\.elsewhere\.example/)
  t.same(seen, [])
  t.match(await checked(change), { ok: false, problem: /^tls: .* is not for localhost/ })
  t.equal((await send({ ...change, tls_verify_host_name: false })).state, 'delivered')
  t.match(await checked({ ...change, tls_verify_host_name: false }), { ok: true })
  t.match(
    (await send(change)).error,
    /is not for localhost/,
    'a connection that is kept is not taken for another profile',
  )
  const stranger = await startPartner(t, shows(self))
  const other = { ...change, endpoint: `https://localhost:${stranger.port}/as2`, tls_verify_host_name: false }
  t.equal((await send(other)).state, 'failed', 'what is not trusted does not pass for its name')
})

void t.test('what fails in TLS is told in the words of the connection check', async (t) => {
  const expired = makeCertificate({ commonName: 'late', hosts: ['localhost'], issuer: root, days: -2 })
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
  const demands = { requestCert: true, rejectUnauthorized: true, ca: root.certificatePem }
  for (const options of [
    shows(self),
    shows(elsewhere),
    shows(expired),
    { ...shows(server), ...old },
    { ...shows(server), ...demands, maxVersion: 'TLSv1.2' } as const,
  ]) {
    const { port } = await startPartner(t, options)
    const change = { ...PLAIN, endpoint: `https://localhost:${port}/as2`, tls_ca_certificate_id: ids.root }
    const { problem } = await checked(change)
    const { state, error } = await send(change)
    t.equal(state, 'failed')
    t.equal(`tls: ${error.slice(0, 1).toLowerCase()}${error.slice(1)}`, problem)
    t.notMatch(error, /[\n\r]|openssl|SSL routines/i)
  }
})

void t.test('an address is checked as such, and no name is asked for', async (t) => {
  const { port, seen } = await startPartner(t, shows(server))
  const change = { ...PLAIN, endpoint: `https://127.0.0.1:${port}/as2`, tls_ca_certificate_id: ids.root }
  t.equal((await send(change)).state, 'delivered')
  t.match(seen, [{ serverName: '' }])
})

void t.test('the client certificate of the profile is shown with its issuers', async (t) => {
  const demands = { requestCert: true, rejectUnauthorized: true, ca: root.certificatePem }
  const { port, seen } = await startPartner(t, { ...shows(server), ...demands })
  const change = { ...PLAIN, endpoint: `https://localhost:${port}/as2`, tls_ca_certificate_id: ids.root }
  t.equal((await send(change)).state, 'failed', 'without one the server refuses us')
  t.equal((await send({ ...change, tls_client_certificate_id: ids.client })).state, 'delivered')
  // The server trusts the root alone, and so has met the one between.
  t.match(seen, [{ client: 'acme client' }])
})

void t.test('a server that speaks TLS 1.1 alone is not spoken to', async (t) => {
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
  const { port, seen } = await startPartner(t, { ...shows(server), ...old })
  const change = { ...PLAIN, endpoint: `https://localhost:${port}/as2`, tls_ca_certificate_id: ids.root }
  const refused = await send(change)
  t.equal(refused.state, 'failed')
  t.match(refused.error, /TLS 1\.2|TLS version/)
  t.same(seen, [])
})

void t.test('TLS 1.2 is spoken with a server that knows no newer one', async (t) => {
  const { port, seen } = await startPartner(t, { ...shows(server), maxVersion: 'TLSv1.2' })
  const change = { ...PLAIN, endpoint: `https://localhost:${port}/as2`, tls_ca_certificate_id: ids.root }
  t.equal((await send(change)).state, 'delivered')
  t.match(seen, [{ protocol: 'TLSv1.2' }])
})
