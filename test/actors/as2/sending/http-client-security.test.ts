import t from 'tap'
import { makeCertificate } from '../../../support/certificates.ts'
import { httpServer, httpsServer } from '../../../support/partner-server.ts'
import { client, post } from './posted-streams.ts'

t.setTimeout(300_000)

t.test('a name goes to the server with the handshake, and TLS before 1.2 is refused', async (t) => {
  const { certificatePem: cert, privateKeyPem: key } = makeCertificate({
    commonName: 'localhost',
    hosts: ['localhost'],
  })
  const names: string[] = []
  const named = (name: string, done: (error: null) => void): void => {
    names.push(name)
    done(null)
  }
  const { port } = await httpsServer(t, { cert, key, SNICallback: named }, (_request, response) =>
    response.end('ok'),
  )
  const tls = { ca: cert }
  const url = `https://localhost:${port}/as2`
  const small = Buffer.from('small')
  t.match(await client(t).post(post(port, small, { url, tls })), { status: 200 })
  t.same(names, ['localhost'])
  const only11 = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
  const old = await httpsServer(t, { cert, key, ...only11 }, (_request, response) => void response.end('ok'))
  const posted = client(t).post(post(port, small, { url: `https://localhost:${old.port}/as2`, tls }))
  await t.rejects(posted, { message: 'The server does not take TLS 1.2 or 1.3' })
})

t.test('a header that holds a line break is refused before anything is sent', async (t) => {
  let requests = 0
  const { port } = await httpServer(t, (_request, response) => {
    requests += 1
    response.end()
  })
  for (const header of [
    ['X-Key', 'secret\r\nX-Other: 1'],
    ['X-Key', 'secret\n'],
    ['X-Key', 'secret\0'],
    ['X-Key\r\nX-Other', '1'],
  ] as const) {
    const refused = client(t).post(post(port, Buffer.from('small'), { headers: [header] }))
    await t.rejects(refused, {
      name: 'PermanentFailure',
      message: /^The header "X-Key[^:]*" holds a line break/,
    })
    await refused.catch((error: Error) => t.notMatch(error.message, /secret/))
  }
  t.equal(requests, 0)
})
