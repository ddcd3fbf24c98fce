import { once } from 'node:events'
import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { storeCertificate } from '../support/as2-partner.ts'
import { makeCertificate } from '../support/certificates.ts'
import { ConnectionChecks } from '../support/connection-checks.ts'
import { httpServer, silentServer, tcpServer } from '../support/partner-server.ts'
import { until } from '../support/processes.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

const LIMIT_MS = 60_000

const checks = await ConnectionChecks.begin(t)
const { api, partners } = checks
const { client, base } = api
const { profile } = partners

t.test('an http endpoint that answers is ok, whatever it answers, and gets no message', async (t) => {
  const requests: { method: string; url: string; headers: object; body: string }[] = []
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = '', url = '', headers } = request
    requests.push({ method, url, headers, body: (await buffer(request)).toString() })
    response.writeHead(405, { allow: 'POST' }).end('no')
  }
  const server = await httpServer(t, (request, response) => {
    void take(request, response)
  })
  const secrets = {
    http_basic_username: 'acme',
    http_basic_password: 'hunter2',
    http_headers: [{ name: 'X-Key', value: 'k' }],
  }
  const { port } = server
  await checks.put({ endpoint: `http://127.0.0.1:${port}/as2?x=1`, ...secrets })
  const { ok, details, results, steps } = await checks.check(t, `http://127.0.0.1:${port}/as2?x=1`)
  t.equal(ok, true)
  t.same(results, { certificates: true, resolve: true, connect: true, tls: true, http: true })
  t.equal(details['tls'], 'not used')
  t.match(details['certificates'], /globex edi until .*acme edi until/)
  t.match(details['connect'], `127.0.0.1:${port}`)
  t.match(details['http'], /HTTP\/1.1 405 Method Not Allowed/)
  t.ok(steps.every(({ elapsed_ms }) => Number.isInteger(elapsed_ms) && elapsed_ms >= 0))
  t.equal(requests.length, 1)
  t.match(requests[0], {
    method: 'GET',
    url: '/as2?x=1',
    body: '',
    headers: {
      authorization: `Basic ${Buffer.from('acme:hunter2').toString('base64')}`,
      'x-key': 'k',
      'user-agent': 'Waybill/test',
    },
  })
  t.notMatch(Object.keys(requests[0]?.headers ?? {}).join(), /as2|message-id|disposition/)
  t.equal((await client.get('/messages')).data['total'], 0, 'no message is made')
  const cleared = { http_basic_username: '', http_basic_password: '', http_headers: [] }
  await checks.put(cleared)
})

t.test('statuses that a message would meet too are explained', async (t) => {
  const statuses = [401, 403, 404, 302, 500, 503]
  const server = await httpServer(t, (_request, response) => {
    response.writeHead(statuses.shift() ?? 200, { location: 'http://elsewhere.invalid/' }).end()
  })
  for (const words of [
    /401.*user name and password/,
    /403.*forbids/,
    /404.*path/,
    /302/,
    /500.*fails at the moment/,
    /503/,
  ]) {
    const { ok, details } = await checks.check(t, `http://127.0.0.1:${server.port}/`)
    t.equal(ok, true)
    t.match(details['http'], words)
  }
})

t.test('an answer that refuses the user name and password of the profile fails in http', async (t) => {
  const statuses = [401, 403, 407, 500]
  const server = await httpServer(t, (_request, response) => {
    response.writeHead(statuses.shift() ?? 200).end()
  })
  const endpoint = `http://127.0.0.1:${server.port}/`
  await checks.put({ endpoint, http_basic_username: 'acme', http_basic_password: 'hunter2' })
  for (const status of [401, 403, 407]) {
    const problem = new RegExp(`the partner refuses the credentials: .* ${status}`)
    await checks.fails(t, endpoint, { step: 'http', problem })
  }
  t.equal((await checks.check(t, endpoint)).ok, true, 'a failure of the server says nothing of them')
  await checks.put({ http_basic_username: '', http_basic_password: '' })
})

t.test('a name that has no address fails in resolve', async (t) => {
  await checks.fails(t, 'http://no-such-host.invalid/as2', {
    step: 'resolve',
    problem: /no-such-host\.invalid/,
  })
})

t.test('a port that nobody listens on fails in connect', async (t) => {
  // Nothing listens on port 1 of any machine of today, and no other test is given it.
  await checks.fails(t, 'http://127.0.0.1:1/', {
    step: 'connect',
    problem: /127\.0\.0\.1:1 refuses the connection/,
  })
})

t.test('a server that closes at once, or speaks no HTTP, fails in http', async (t) => {
  const closing = await tcpServer(t, (socket) => socket.destroy())
  await checks.fails(t, `http://127.0.0.1:${closing.port}/`, {
    step: 'http',
    problem: /closed the connection without an answer/,
  })
  const babbling = await tcpServer(t, (socket) => socket.end('220 mail.globex.example ESMTP\r\n'))
  await checks.fails(t, `http://127.0.0.1:${babbling.port}/`, { step: 'http', problem: /not HTTP/ })
})

t.test('a server that never answers fails when the settings of the sender say so', async (t) => {
  await client.create('/plugins/configs?type=as2-sender', {
    name: 'hasty',
    connect_timeout_seconds: 10,
    response_timeout_seconds: 1,
  })
  await checks.start('hasty')
  const silent = await silentServer(t)
  await checks.fails(t, `http://127.0.0.1:${silent.port}/`, {
    step: 'http',
    problem: /does not answer an HTTP request \(waited 1 s\)/,
    sender: 'hasty',
  })
  await checks.fails(t, `https://127.0.0.1:${silent.port}/`, {
    step: 'tls',
    problem: /does not answer the TLS handshake \(waited 10 s\)/,
    sender: 'hasty',
  })
  await until(() => silent.connections.size === 0, LIMIT_MS)
  t.equal((await client.post('/services/as2-sender/hasty/stop')).status, 200)
  t.equal((await client.delete('/plugins/configs/as2-sender/hasty')).status, 204)
})

t.test('certificates', async (t) => {
  const server = await httpServer(t, (_request, response) => response.end())
  const endpoint = `http://127.0.0.1:${server.port}/`
  const { acme, acmeCertificate, globexCertificate } = partners
  const ours = `/as2/local-profiles/${acme}`

  t.test('one that has expired, or is not yet valid, is named', async (t) => {
    const expired = makeCertificate({ commonName: 'globex old', days: -3 })
    await checks.put({ partner_certificate_id: await storeCertificate(api, 'old', expired, false) })
    await checks.fails(t, endpoint, {
      step: 'certificates',
      problem: /globex old \(id \d+\), which encrypts to globex, expired on \d{4}-/,
    })
    await checks.put({ partner_certificate_id: globexCertificate })
    const early = makeCertificate({ commonName: 'acme next', age: -3 })
    const id = await storeCertificate(api, 'next', early, true)
    await checks.put({ signing_certificate_id: id }, ours)
    await checks.fails(t, endpoint, {
      step: 'certificates',
      problem: /acme next .*which signs for acme, is valid from/,
    })
    await checks.put({ signing_certificate_id: acmeCertificate }, ours)
  })

  t.test('one that is missing is named by what it is needed for', async (t) => {
    await checks.put({ signing_certificate_id: null }, ours)
    await checks.fails(t, endpoint, {
      step: 'certificates',
      problem: /the AS2 profile of acme has no certificate to sign with/,
    })
    await checks.put({ signing_certificate_id: acmeCertificate }, ours)
  })

  t.test('one that verifies receipts is needed, the previous one will do', async (t) => {
    await checks.put({
      encryption_algorithm: 'None',
      partner_certificate_id: null,
      previous_partner_signing_certificate_id: globexCertificate,
    })
    const { ok, details } = await checks.check(t, endpoint)
    t.equal(ok, true)
    t.match(details['certificates'], /globex edi until/)
    // The API takes no such profile; one may be stored from before.
    const forget = 'update as2_remote_profile set previous_partner_signing_certificate_id = null'
    await api.database.pool.query(forget)
    const { problem } = (await client.post(`${profile}/check-connection`, { sender: 'sender' })).data
    t.match(problem, /^certificates: .*no certificate to verify the signed receipts of globex with/)
    await checks.put({ encryption_algorithm: 'AES256-CBC', partner_certificate_id: globexCertificate })
  })

  t.test('what the profile does not use is not needed', async (t) => {
    await checks.put({ signing_certificate_id: null }, ours)
    const plain = { signing_algorithm: 'None', encryption_algorithm: 'None', receipt_signed: false }
    await checks.put({ ...plain, partner_certificate_id: null })
    t.equal((await checks.check(t, endpoint)).ok, true)
    await checks.put({
      signing_algorithm: 'SHA256',
      encryption_algorithm: 'AES256-CBC',
      receipt_signed: true,
      partner_certificate_id: globexCertificate,
    })
    await checks.put({ signing_certificate_id: acmeCertificate }, ours)
  })

  t.test('organizations that routes to the partner name must all be able to send', async (t) => {
    const { id } = await client.create('/organizations', { name: 'initech' })
    await client.create('/plugins/configs?type=as2-receiver', { name: 'receiver' })
    const route = { source_plugin: 'receiver', from: 'acme', to: 'globex', target_plugin: 'sender' }
    await client.create('/routes', route)
    t.equal((await checks.check(t, endpoint)).ok, true)
    await client.create('/routes', { ...route, from: 'initech', to: '*' })
    await checks.fails(t, endpoint, { step: 'certificates', problem: /initech has no AS2 profile/ })
    await client.create('/as2/local-profiles', { local_organization_id: id, as2id: 'INITECH' })
    await checks.fails(t, endpoint, {
      step: 'certificates',
      problem: /initech has no certificate to sign with/,
    })
    await checks.put({ signing_certificate_id: acmeCertificate }, `/as2/local-profiles/${String(id)}`)
    t.equal((await checks.check(t, endpoint)).ok, true)
    for (const each of (await client.get('/routes')).data['routes'] as { id: number }[])
      await client.delete(`/routes/${each.id}`)
    await client.delete(`/as2/local-profiles/${String(id)}`)
    t.equal((await client.delete(`/organizations/${String(id)}`)).status, 204)
    t.equal((await client.delete('/plugins/configs/as2-receiver/receiver')).status, 204)
  })

  t.test('where no route names one, it is enough that one organization can send', async (t) => {
    const { id } = await client.create('/organizations', { name: 'initech' })
    await client.create('/as2/local-profiles', { local_organization_id: id, as2id: 'INITECH' })
    const others = /acme edi until .*organizations that cannot send.*initech has no certificate to sign with/
    const withoutRoute = await checks.check(t, endpoint)
    t.equal(withoutRoute.ok, true)
    t.match(withoutRoute.details['certificates'], others)

    await client.create('/plugins/configs?type=as2-receiver', { name: 'receiver' })
    const { id: route } = await client.create('/routes', {
      source_plugin: 'receiver',
      from: '*',
      to: 'globex',
      target_plugin: 'sender',
    })
    const fromAny = await checks.check(t, endpoint)
    t.equal(fromAny.ok, true)
    t.match(fromAny.details['certificates'], others)
    await checks.put({ signing_certificate_id: null }, ours)
    await checks.fails(t, endpoint, {
      step: 'certificates',
      problem: /acme has no certificate to sign with.*initech has no certificate to sign with/,
    })
    await checks.put({ signing_certificate_id: acmeCertificate }, ours)
    t.equal((await client.delete(`/routes/${String(route)}`)).status, 204)
    await client.delete(`/as2/local-profiles/${String(id)}`)
    t.equal((await client.delete(`/organizations/${String(id)}`)).status, 204)
  })
})

t.test('the sender', async (t) => {
  const server = await httpServer(t, (_request, response) => response.end())
  const path = `${profile}/check-connection`
  await checks.put({ endpoint: `http://127.0.0.1:${server.port}/` })
  const refusal = async (body: object) => {
    const { status, error } = await client.post(path, body)
    return { status, code: error?.code, details: error?.details ?? {} }
  }

  t.test('may be left out where only one exists, and the body with it', async (t) => {
    t.match((await client.post(path, {})).data, { ok: true })
    const bare = await client.ask('POST', path, { headers: { 'content-type': 'application/json' } })
    t.match(bare.data, { ok: true })
  })

  t.test('must be one that exists, and be named where there are several', async (t) => {
    t.match(await refusal({ sender: 'nobody' }), { status: 400, details: { sender: /no AS2 sender nobody/ } })
    t.match(await refusal({ sender: 5 }), { status: 400, details: { sender: /text/ } })
    t.match(await refusal({ sendr: 'sender' }), { status: 400, details: { sendr: /unknown property/ } })
    await client.create('/plugins/configs?type=as2-sender', { name: 'other', enabled: false })
    t.match(await refusal({}), { status: 400, details: { sender: /other, sender/ } })
    t.match(await refusal({ sender: 'other' }), { status: 503, code: 'SENDER_NOT_RUNNING' })
    await client.delete('/plugins/configs/as2-sender/other')
    await client.create('/plugins/configs?type=file-writer', { name: 'writer', base_directory: '/tmp/x' })
    t.match(await refusal({ sender: 'writer' }), { status: 400, details: { sender: /no AS2 sender/ } })
  })

  t.test('that does not run is 503 SENDER_NOT_RUNNING, also when it stops meanwhile', async (t) => {
    const silent = await silentServer(t)
    await checks.put({ endpoint: `http://127.0.0.1:${silent.port}/` })
    const asked = client.post(path, {})
    await until(() => silent.connections.size === 1, LIMIT_MS)
    t.equal((await client.post('/services/as2-sender/sender/stop')).status, 200)
    t.match((await asked).error, { code: 'SENDER_NOT_RUNNING' })
    const answer = await client.post(path, { sender: 'sender' })
    t.equal(answer.status, 503)
    t.match(answer.error, { code: 'SENDER_NOT_RUNNING', message: /sender is stopped/ })
    await checks.start('sender')
  })

  t.test('a partner without a profile is 404', async (t) => {
    const { id } = await client.create('/partners', { name: 'umbrella' })
    t.equal((await client.post(`/as2/remote-profiles/${String(id)}/check-connection`)).status, 404)
    t.equal((await client.post('/as2/remote-profiles/x/check-connection')).status, 400)
  })

  t.test('gives up when the client goes away', async (t) => {
    const silent = await silentServer(t)
    await checks.put({ endpoint: `http://127.0.0.1:${silent.port}/` })
    const headers = { 'content-type': 'application/json' }
    const asked = request(base + path, { method: 'POST', headers, agent: false }).end('{}')
    const ended = once(asked, 'error')
    await until(() => silent.connections.size === 1, LIMIT_MS)
    asked.destroy()
    await ended
    // Long before the sender's own patience is at an end.
    await until(() => silent.connections.size === 0, 20_000)
  })
})
