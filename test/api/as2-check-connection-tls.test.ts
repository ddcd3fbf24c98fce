import t from 'tap'
import { storeCertificate } from '../support/as2-partner.ts'
import { makeCertificate } from '../support/certificates.ts'
import { ConnectionChecks } from '../support/connection-checks.ts'
import { httpServer, httpsServer, tcpServer } from '../support/partner-server.ts'

const checks = await ConnectionChecks.begin(t)
const { api } = checks

t.test('TLS', async (t) => {
  const authority = makeCertificate({ commonName: 'globex ca', keyType: 'ec', authority: true })
  const issued = (wishes: object = {}) =>
    makeCertificate({
      commonName: 'globex tls',
      keyType: 'ec',
      hosts: ['localhost', '127.0.0.1'],
      issuer: authority,
      ...wishes,
    })
  const anchor = await storeCertificate(api, 'globex ca', authority, false)
  const trusting = (id: number | null) => checks.put({ tls_ca_certificate_id: id })
  const serve = (
    { certificatePem, privateKeyPem }: { certificatePem: string; privateKeyPem: string },
    options: object = {},
  ) =>
    httpsServer(t, { cert: certificatePem, key: privateKeyPem, ...options }, (_request, response) =>
      response.end(),
    )
  const local = ({ port }: { port: number }) => `https://localhost:${port}/as2`

  t.test("a certificate of the profile's own authority is ok, for a name and for an address", async (t) => {
    await trusting(anchor)
    const server = await serve(issued())
    for (const host of ['localhost', '127.0.0.1']) {
      const { ok, details } = await checks.check(t, `https://${host}:${server.port}/`)
      t.equal(ok, true)
      t.match(
        details['tls'],
        /TLSv1\.3, TLS_\w+, certificate globex tls until \d{4}-\d\d-\d\d \(36[45] days left\)/,
      )
    }
  })

  t.test('without it, the authority is unknown', async (t) => {
    await trusting(null)
    await checks.fails(t, local(await serve(issued())), {
      step: 'tls',
      problem: /globex tls.*unknown authority globex ca.*public authorities/,
    })
  })

  t.test('a self-signed certificate is refused, unless the profile trusts that very one', async (t) => {
    const own = makeCertificate({ commonName: 'globex alone', keyType: 'ec', hosts: ['localhost'] })
    const server = await serve(own)
    await checks.fails(t, local(server), {
      step: 'tls',
      problem: /globex alone.*is self-signed.*tls_ca_certificate_id/,
    })
    await trusting(anchor)
    await checks.fails(t, local(server), {
      step: 'tls',
      problem: /globex alone.*is self-signed, and not the one that the profile trusts/,
    })
    await trusting(await storeCertificate(api, 'globex alone', own, false))
    t.equal((await checks.check(t, local(server))).ok, true)
    await trusting(anchor)
  })

  t.test(
    'an expired certificate, one that is not yet valid and one of another name are told apart',
    async (t) => {
      await checks.fails(t, local(await serve(issued({ days: -2 }))), {
        step: 'tls',
        problem: /globex tls.*expired on \d{4}-/,
      })
      await checks.fails(t, local(await serve(issued({ age: -2, days: 9 }))), {
        step: 'tls',
        problem: /globex tls.*is valid from \d{4}-.* on only/,
      })
      const other = await serve(issued({ hosts: ['as2.globex.example'] }))
      await checks.fails(t, local(other), {
        step: 'tls',
        problem: /globex tls.*is not for localhost.*as2\.globex\.example/,
      })
    },
  )

  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    t.test(`a server that demands a client certificate in ${version} gets that of the profile`, async (t) => {
      const demanding = await serve(issued(), {
        requestCert: true,
        rejectUnauthorized: true,
        ca: authority.certificatePem,
        minVersion: version,
        maxVersion: version,
      })
      await checks.fails(t, local(demanding), { step: 'tls', problem: /client certificate/ })
      const ours = makeCertificate({ commonName: `acme in ${version}`, keyType: 'ec', issuer: authority })
      const id = await storeCertificate(api, 'acme tls', ours, true)
      await checks.put({ tls_client_certificate_id: id })
      const { ok, problem, details } = await checks.check(t, local(demanding))
      t.equal(ok, true, problem ?? '')
      t.match(details['tls'], version)
      await checks.put({ tls_client_certificate_id: null })
    })
  }

  t.test('an authority below the root is trusted as it stands', async (t) => {
    const wishes = {
      commonName: 'globex issuing',
      keyType: 'ec',
      authority: true,
      issuer: authority,
    } as const
    const below = makeCertificate(wishes)
    const { certificatePem, privateKeyPem } = issued({ issuer: below })
    const server = await serve({ certificatePem: certificatePem + below.certificatePem, privateKeyPem })
    await checks.put({ tls_ca_certificate_id: await storeCertificate(api, 'issuing', below, false) })
    t.equal((await checks.check(t, local(server))).ok, true)
    await trusting(null)
    await checks.fails(t, local(server), { step: 'tls', problem: /globex tls.*authority/ })
    await trusting(anchor)
  })

  t.test('a client certificate that TLS does not take is told', async (t) => {
    const weak = makeCertificate({ commonName: 'acme weak', keyBits: 512, issuer: authority })
    await checks.put({ tls_client_certificate_id: await storeCertificate(api, 'weak', weak, true) })
    const problem = /certificates of the profile cannot be used for TLS/
    await checks.fails(t, local(await serve(issued())), { step: 'tls', problem })
    await checks.put({ tls_client_certificate_id: null })
  })

  t.test('a server without TLS, and one that closes the connection, fail in tls', async (t) => {
    const plain = await httpServer(t, (_request, response) => response.end())
    await checks.fails(t, `https://127.0.0.1:${plain.port}/`, { step: 'tls', problem: /does not speak TLS/ })
    const closing = await tcpServer(t, (socket) => socket.destroy())
    await checks.fails(t, `https://127.0.0.1:${closing.port}/`, {
      step: 'tls',
      problem: /closed the connection during the TLS handshake/,
    })
  })

  t.test('a TLS server behind an http endpoint fails in http', async (t) => {
    const server = await serve(issued())
    await checks.fails(t, `http://127.0.0.1:${server.port}/`, {
      step: 'http',
      problem: /not HTTP|closed the connection/,
    })
  })

  t.test('a server of old TLS alone is refused', async (t) => {
    const old = await serve(issued(), {
      minVersion: 'TLSv1.1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT:@SECLEVEL=0',
    })
    await checks.fails(t, local(old), { step: 'tls', problem: /TLS 1\.2/ })
  })
})
