import { once } from 'node:events'
import { request } from 'node:https'
import { connect, type TLSSocket } from 'node:tls'
import t from 'tap'
import { setUpLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { makeCertificate, type TestCertificate } from '../../../support/certificates.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { everything } from '../../../support/raw-http.ts'
import { reservePort } from '../../../support/reserved-port.ts'
import { Waybill } from '../../../support/waybill.ts'

t.setTimeout(300_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })
const store = new As2Correspondent(waybill, loop)

const hosts = ['as2.globex.example']
const root = makeCertificate({ commonName: 'root', authority: true })
const intermediate = makeCertificate({ commonName: 'intermediate', authority: true, issuer: root })
const leaf = makeCertificate({ commonName: 'as2.globex.example', hosts, issuer: intermediate })
const renewed = makeCertificate({ commonName: 'as2.globex.example 2', hosts, issuer: intermediate })
const namesake = makeCertificate({ commonName: 'intermediate', authority: true, issuer: root })
const byRoot = makeCertificate({ commonName: 'partner of the root', issuer: root })
const byIntermediate = makeCertificate({ commonName: 'partner of the intermediate', issuer: intermediate })
const its = makeCertificate({ commonName: 'another partner of the intermediate', issuer: intermediate })
const own = makeCertificate({ commonName: 'partner itself' })
const stranger = makeCertificate({ commonName: 'stranger' })
const expired = makeCertificate({ commonName: 'expired partner', issuer: root, days: -1 })

await store.store(namesake)
const ids = {
  intermediate: await store.store(intermediate),
  byIntermediate: await store.store(byIntermediate),
  leaf: await store.store(leaf, true),
  renewed: await store.store(renewed, true),
  root: await store.store(root),
  own: await store.store(own),
}

/** Starts a receiver; answers its URL. */
async function startReceiver(name: string, settings: object): Promise<string> {
  const place = await reservePort()
  const body = { name, tls_certificate_id: ids.leaf, ...place, ...settings }
  await waybill.request('POST', '/plugins/configs?type=as2-receiver', body)
  await waybill.request('POST', `/services/as2-receiver/${name}/start`)
  return `https://${place.host}:${place.port}/as2`
}

interface Met {
  /** The HTTP status, or the failure. */
  readonly outcome: number | string
  readonly protocol: string | null
  /** The common name of the server's certificate. */
  readonly server: string
}

/** Asks a receiver with HEAD, trusting the root alone. */
function meet(url: string, shown: TestCertificate | null, options: object = {}): Promise<Met> {
  const servername = 'as2.globex.example'
  const identity = shown === null ? {} : { cert: shown.certificatePem, key: shown.privateKeyPem }
  return new Promise((resolve) => {
    let [protocol, server]: [string | null, string] = [null, '']
    const asked = request(url, {
      method: 'HEAD',
      agent: false,
      ca: root.certificatePem,
      servername,
      ...identity,
      ...options,
    })
    asked.on('socket', (socket) =>
      socket.once('secureConnect', () => {
        const secured = socket as TLSSocket
        protocol = secured.getProtocol()
        server = String(secured.getPeerCertificate().subject.CN)
      }),
    )
    asked.on('error', (error: NodeJS.ErrnoException) =>
      resolve({ outcome: `${error.code ?? ''} ${error.message}`, protocol, server }),
    )
    asked.on('response', (response) => {
      response.resume()
      resolve({ outcome: response.statusCode ?? 0, protocol, server })
    })
    asked.end()
  })
}

void t.test('the certificate is shown with the stored issuers that have signed it', async (t) => {
  const url = await startReceiver('plain', {})
  t.match(
    await meet(url, null),
    { outcome: 200, server: 'as2.globex.example' },
    'who knows the root alone trusts it',
  )
})

void t.test('TLS 1.2 and 1.3 are spoken, and nothing older', async (t) => {
  const url = await startReceiver('versions', {})
  const only = (version: string) => ({ minVersion: version, maxVersion: version })
  t.match(await meet(url, null, only('TLSv1.3')), { outcome: 200, protocol: 'TLSv1.3' })
  t.match(await meet(url, null, only('TLSv1.2')), { outcome: 200, protocol: 'TLSv1.2' })
  // A client that would speak it: the refusal is the server's.
  const old = { ...only('TLSv1.1'), ciphers: 'DEFAULT:@SECLEVEL=0' }
  t.match(await meet(url, null, old), { outcome: /alert protocol version/i })
})

void t.test('a client certificate that is required is asked for and checked in the handshake', async (t) => {
  const trust = { tls_client_ca_certificate_ids: [ids.root, ids.own] }
  const url = await startReceiver('required', { tls_client_certificate: 'required', ...trust })
  t.match(await meet(url, byRoot), { outcome: 200 }, 'one of a trusted authority')
  t.match(await meet(url, own), { outcome: 200 }, "a partner's own one")
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const only = { minVersion: version, maxVersion: version }
    for (const [name, shown] of Object.entries({ none: null, stranger, expired })) {
      const { outcome } = await meet(url, shown, only)
      t.type(outcome, 'string', `${name} is refused over ${version}: ${outcome}`)
    }
  }
})

void t.test('one that is optional may be missing, but must be trusted when it is shown', async (t) => {
  const trust = { tls_client_ca_certificate_ids: [ids.root] }
  const url = await startReceiver('optional', { tls_client_certificate: 'optional', ...trust })
  t.match(await meet(url, null), { outcome: 200 })
  t.match(await meet(url, byRoot), { outcome: 200 })
  t.type((await meet(url, own)).outcome, 'string')
  t.type((await meet(url, expired)).outcome, 'string')
})

/** A client without SNI, as those are that know an address alone. */
const NAMELESS = { servername: undefined, checkServerIdentity: () => undefined }

/** Everything that a client may do otherwise. */
const CLIENTS = ['TLSv1.2', 'TLSv1.3'].flatMap((version) =>
  [{}, NAMELESS].map((naming) => ({
    title: `over ${version} ${naming === NAMELESS ? 'without' : 'with'} SNI`,
    options: { minVersion: version, maxVersion: version, ...naming },
  })),
)

for (const way of ['required', 'optional']) {
  void t.test(`an authority below its root may be trusted alone, where clients are ${way}`, async (t) => {
    const trust = { tls_client_ca_certificate_ids: [ids.intermediate] }
    const url = await startReceiver(`below-${way}`, { tls_client_certificate: way, ...trust })
    const chain = byIntermediate.certificatePem + intermediate.certificatePem
    for (const { title, options } of CLIENTS) {
      t.match(await meet(url, byIntermediate, options), { outcome: 200 }, `one of it, ${title}`)
      const chained = await meet(url, byIntermediate, { ...options, cert: chain })
      t.match(chained, { outcome: 200 }, `one that shows its issuer, ${title}`)
      t.type((await meet(url, byRoot, options)).outcome, 'string', `the root is not trusted, ${title}`)
      t.type((await meet(url, stranger, options)).outcome, 'string', `nor a stranger, ${title}`)
    }
  })

  void t.test(`a partner's certificate of an authority may be trusted alone, ${way}`, async (t) => {
    const trust = { tls_client_ca_certificate_ids: [ids.byIntermediate] }
    const url = await startReceiver(`itself-${way}`, { tls_client_certificate: way, ...trust })
    const chain = byIntermediate.certificatePem + intermediate.certificatePem
    for (const { title, options } of CLIENTS) {
      t.match(await meet(url, byIntermediate, options), { outcome: 200 }, `itself, ${title}`)
      const chained = await meet(url, byIntermediate, { ...options, cert: chain })
      t.match(chained, { outcome: 200 }, `with its issuer, ${title}`)
      t.type((await meet(url, its, options)).outcome, 'string', `its authority is not trusted, ${title}`)
      t.type((await meet(url, stranger, options)).outcome, 'string', `nor a stranger, ${title}`)
    }
  })
}

void t.test('who was trusted is so, too, when the session is resumed', async (t) => {
  const trust = { tls_client_ca_certificate_ids: [ids.intermediate] }
  const url = await startReceiver('resumed', { tls_client_certificate: 'required', ...trust })
  const { hostname, port } = new URL(url)
  const { certificatePem: cert, privateKeyPem: key } = byIntermediate
  const answered = async (
    session?: Buffer,
  ): Promise<{ answer: string; isReused: boolean; ticket: Buffer }> => {
    const server = { host: hostname, port: Number(port), servername: 'as2.globex.example' }
    const socket = connect({ ...server, ca: root.certificatePem, cert, key, session, maxVersion: 'TLSv1.2' })
    t.teardown(() => socket.destroy())
    await once(socket, 'secureConnect')
    const isReused = socket.isSessionReused()
    const ticket = socket.getSession() ?? Buffer.alloc(0)
    socket.write('HEAD /as2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    return { answer: await everything(socket), isReused, ticket }
  }
  const { answer, ticket } = await answered()
  t.match(answer, /^HTTP\/1\.1 200 /)
  t.match(await answered(ticket), { answer: /^HTTP\/1\.1 200 /, isReused: true })
})

/** Until the log tells of one client that was turned away since it had so many lines. */
async function turnedAway(from: number, reason: string): Promise<string> {
  const told = (): string | undefined =>
    waybill.output
      .slice(from)
      .find((line) => line.includes('a client was turned away in TLS') && line.includes(reason))
  await until(async () => told() !== undefined)
  return told() ?? ''
}

void t.test(
  'a client that is turned away in TLS is found in the log, with its address and the reason',
  async (t) => {
    const trust = { tls_client_ca_certificate_ids: [ids.root] }
    const required = await startReceiver('told', { tls_client_certificate: 'required', ...trust })
    const optional = await startReceiver('told-optional', { tls_client_certificate: 'optional', ...trust })
    for (const [url, shown, reason] of [
      [required, stranger, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
      [required, expired, 'CERT_HAS_EXPIRED'],
      [required, null, 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE'],
      [optional, stranger, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    ] as const) {
      const before = waybill.output.length
      await meet(url, shown)
      const line = await turnedAway(before, reason)
      t.match(line, '127.0.0.1')
      if (url === optional) t.match(line, 'CN=stranger')
    }
  },
)

void t.test('those who are turned away do not fill the log', async (t) => {
  const trust = { tls_client_ca_certificate_ids: [ids.root] }
  const url = await startReceiver('flooded', { tls_client_certificate: 'required', ...trust })
  const before = waybill.output.length
  const isTold = (): boolean => waybill.output.slice(before).some((line) => line.includes('are not told'))
  let met = 0
  for (; !isTold(); met += 1) await meet(url, stranger)
  t.ok(met >= 20, 'those that come first are told')
})

void t.test('a changed certificate is used after a restart of the instance', async (t) => {
  const url = await startReceiver('changed', {})
  await waybill.request('PUT', '/plugins/configs/as2-receiver/changed', { tls_certificate_id: ids.renewed })
  await waybill.request('POST', '/services/as2-receiver/changed/restart')
  t.match(await meet(url, null), { outcome: 200, server: 'as2.globex.example 2' })
})
