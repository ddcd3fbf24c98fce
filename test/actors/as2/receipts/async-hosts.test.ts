import type { IncomingHttpHeaders } from 'node:http'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PeerCertificate, TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { makeCertificate, type TestCertificate } from '../../../support/certificates.ts'
import { httpsServer } from '../../../support/partner-server.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { startOwing, stateOf } from './async-owed.ts'
import { receiptLines } from './async-site.ts'

/** The hosts that partners want their receipts at: whom we believe to be such a host, and what it is shown. */

t.setTimeout(300_000)

const root = makeCertificate({ commonName: 'private root', authority: true })
const publicRoot = makeCertificate({ commonName: 'public root', authority: true })
const client = makeCertificate({ commonName: 'globex client' })
const HOSTS = ['localhost', '127.0.0.1']
const server = makeCertificate({ commonName: 'private server', hosts: HOSTS, issuer: root })
const publicServer = makeCertificate({ commonName: 'public server', hosts: HOSTS, issuer: publicRoot })
const elsewhere = makeCertificate({ commonName: 'elsewhere', hosts: ['as2.elsewhere.example'], issuer: root })
const self = makeCertificate({ commonName: 'somebody', hosts: HOSTS })

// What the system trusts beside the authorities that everybody knows.
const trusted = join(await temporaryDirectory(t), 'public.pem')
await writeFile(trusted, publicRoot.certificatePem)
const owing = await startOwing(t, { NODE_EXTRA_CA_CERTS: trusted })
const { waybill, pool, loop, acme, change, setReceiver, compose, composeFor, send, untilSo } = owing
const store = new As2Correspondent(waybill, loop)
const rootId = await store.store(root)
const clientId = await store.store(client, true)
await setReceiver({ receipt_hosts: ['127.0.0.1'] })

interface Host {
  readonly port: number
  readonly seen: { readonly client: string; readonly headers: IncomingHttpHeaders }[]
}

/** It takes any certificate of a client. */
async function startHost(t: Test, { certificatePem, privateKeyPem }: TestCertificate): Promise<Host> {
  const seen: Host['seen'] = []
  const tls = { cert: certificatePem, key: privateKeyPem, requestCert: true, rejectUnauthorized: false }
  const { port } = await httpsServer(t, tls, (request, response) => {
    const { subject } = (request.socket as TLSSocket).getPeerCertificate() as Partial<PeerCertificate>
    seen.push({ client: String(subject?.CN ?? ''), headers: request.headers })
    request.resume().on('end', () => response.end())
  })
  return { port, seen }
}

/** A message that wants its receipt there; what the history tells of the first attempt. */
async function receiptAt(url: string): Promise<string> {
  const message = await composeFor(url)
  const { status } = await send(message)
  if (status !== 204) throw new Error(`It was answered with ${status}`)
  const record = await untilSo(message, (each) => receiptLines(each).length > 0)
  // It is not sent again while others are looked at.
  await pool.query('delete from receipt_dispatch')
  return receiptLines(record)[0] ?? ''
}

const TAKEN = /^mdn_received: The partner has taken the receipt/
const SECRETS = { http_basic_username: 'edi', http_basic_password: 'a secret' }

void t.test("what the profile trusts is trusted at each host of the partner's receipts", async (t) => {
  const host = await startHost(t, server)
  const endpoint = `https://localhost:${host.port}/as2`
  const own = { ...SECRETS, tls_client_certificate_id: clientId }
  await change({ endpoint, tls_ca_certificate_id: rootId, ...own })
  t.teardown(() =>
    change({ http_basic_username: '', http_basic_password: '', tls_client_certificate_id: null }),
  )
  t.match(await receiptAt(`https://localhost:${host.port}/same`), TAKEN)
  t.match(await receiptAt(`https://127.0.0.1:${host.port}/other`), TAKEN)
  const [same, other, ...more] = host.seen
  t.same(more, [])
  t.match(same, { client: 'globex client', headers: { authorization: /^Basic / } })
  t.equal(other?.client, '', "our own certificate is for the partner's own host alone")
  t.equal(other?.headers.authorization, undefined)
})

void t.test('and so are the public authorities there, which its own host is not believed by', async (t) => {
  const host = await startHost(t, publicServer)
  const endpoint = `https://localhost:${host.port}/as2`
  await change({ endpoint, tls_ca_certificate_id: rootId })
  t.match(await receiptAt(`https://127.0.0.1:${host.port}/other`), TAKEN)
  t.match(await receiptAt(`https://localhost:${host.port}/same`), /unknown authority public root/)
  await change({ tls_ca_certificate_id: null })
  t.match(await receiptAt(`https://127.0.0.1:${host.port}/other`), TAKEN, 'as of a profile that trusts them')
  t.equal(host.seen.length, 2)
})

void t.test('nobody else is believed, nor a host under another name', async (t) => {
  const stranger = await startHost(t, self)
  const wrong = await startHost(t, elsewhere)
  const endpoint = `https://localhost:${wrong.port}/as2`
  await change({ endpoint, tls_ca_certificate_id: rootId, tls_verify_host_name: false })
  t.match(await receiptAt(`https://127.0.0.1:${stranger.port}/`), /self-signed/)
  t.match(await receiptAt(`https://localhost:${wrong.port}/`), TAKEN, 'where the profile lets any name pass')
  t.match(await receiptAt(`https://127.0.0.1:${wrong.port}/`), /is not for 127\.0\.0\.1/)
  await change({ tls_ca_certificate_id: null, tls_verify_host_name: true })
  t.match(await receiptAt(`https://127.0.0.1:${wrong.port}/`), /unknown authority private root/)
  t.same(stranger.seen, [])
  t.equal(wrong.seen.length, 1)
})

void t.test('a partner that takes no receipt now is asked again when it wants to be', async (t) => {
  await change({ endpoint: acme.url })
  acme.onReceipt = async (_, response) => void response.writeHead(503, { 'retry-after': '3000' }).end()
  const message = await compose()
  await send(message)
  await untilSo(message, (each) => receiptLines(each).length > 0)
  const waits: number[] = []
  await until(async () => {
    const { rows } = await pool.query<{ seconds: number }>(
      `select extract(epoch from next_attempt_at - exchange_time())::float8 as seconds
         from receipt_dispatch where lease_owner is null`,
    )
    waits.push(...rows.map(({ seconds }) => seconds))
    return rows.length > 0
  })
  t.ok((waits[0] ?? 0) > 2_000 && (waits[0] ?? 0) <= 3_000, String(waits[0]))
  t.equal(stateOf(await owing.recordOf(message)), 'pending')
})
