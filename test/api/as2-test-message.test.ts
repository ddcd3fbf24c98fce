import type { TLSSocket } from 'node:tls'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { headerPairs } from '../../actors/as2/sending/http-client.ts'
import { PROCESSED } from '../../actors/as2/protocol/disposition.ts'
import { readMessage } from '../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../actors/as2/protocol/incoming.ts'
import { composeReceipt } from '../../actors/as2/protocol/receipt.ts'
import { startApi } from '../support/api.ts'
import { makeAs2Partners, storeCertificate } from '../support/as2-partner.ts'
import { makeCertificate } from '../support/certificates.ts'
import { httpServer, httpsServer, silentServer } from '../support/partner-server.ts'
import { until } from '../support/processes.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

const LIMIT_MS = 60_000

const api = await startApi(t)
const { client } = api
const partners = await makeAs2Partners(api, 'http://127.0.0.1:9/as2')
const { profile } = partners
const path = `${profile}/test-message`

const sent = async (body: object = {}) => {
  const data = await client.create(path, body)
  const { data: message } = await client.get(`/messages/${String(data['message_id'])}`)
  return { data, message }
}
const refusal = async (body: object = {}) => {
  const { status, error, text } = await client.post(path, body)
  if (status !== 400) throw new Error(text)
  return error?.details ?? {}
}

t.test('without an AS2 sender there is nothing to send with', async (t) => {
  t.match(await refusal(), { sender: 'there is no AS2 sender' })
})

t.test(
  'a test message is a small text of the organization, accepted like one that is sent by hand',
  async (t) => {
    await client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
    const { data, message } = await sent()
    t.match(data, { message_id: String, status: 'InProgress', file_name: /^waybill-test-\d{8}T\d{6}Z\.txt$/ })
    t.match(message, {
      status: 'InProgress',
      stage: 'dispatched',
      direction: 'outbound',
      source: 'api',
      from: 'acme',
      to: 'globex',
      file_name: data['file_name'],
      content_type: 'text/plain',
      deliveries: [{ target: 'sender', state: 'queued', attempts: 0 }],
      history: [{ kind: 'status_changed', new_status: 'Received', text: /developer/ }],
    })
    const payload = await client.get(`/messages/${String(data['message_id'])}/payload?stage=unpacked`)
    t.match(payload.text, /^This is a test message\..*\r\n\r\nFrom: acme\r\nTo: globex\r\nSent: /)
    t.equal(payload.text.length, message['size_bytes'])
  },
)

t.test('the body may be left out', async (t) => {
  const answer = await client.ask('POST', path, { headers: { 'content-type': 'application/json' } })
  t.equal(answer.status, 201, answer.text)
})

t.test('what does not exist is refused on its property', async (t) => {
  t.match(await refusal({ sender: 'nobody', organization: 'no-one' }), {
    sender: /no AS2 sender nobody/,
    organization: /no organization no-one/,
  })
  t.match(await refusal({ organization: 'Not A Name' }), { organization: /lower case/ })
  t.match(await refusal({ partner: 'globex' }), { partner: 'unknown property' })
  t.equal((await client.post('/as2/remote-profiles/999/test-message')).status, 404)
  t.equal((await client.post('/as2/remote-profiles/x/test-message')).status, 400)
})

t.test(
  'of several, the one is taken that routes to the partner name; else the choices are named',
  async (t) => {
    await client.create('/plugins/configs?type=as2-sender', { name: 'spare' })
    const { id } = await client.create('/organizations', { name: 'initech' })
    await client.create('/plugins/configs?type=as2-receiver', { name: 'receiver' })
    t.match((await sent({ sender: 'spare' })).message, { from: 'acme' }, 'initech cannot send over AS2')
    t.match(await refusal({ sender: 'spare', organization: 'initech' }), {
      organization: /initech has no AS2 profile/,
    })
    await client.create('/as2/local-profiles', { local_organization_id: id, as2id: 'INITECH' })
    t.match(await refusal(), { sender: /sender, spare/, organization: /acme, initech/ })
    t.match(await refusal({ sender: 'spare' }), { organization: /acme, initech/ })
    t.match((await sent({ sender: 'spare', organization: 'acme' })).message, {
      deliveries: [{ target: 'spare' }],
    })

    const route = { source_plugin: 'receiver', from: 'acme', to: 'globex', target_plugin: 'spare' }
    await client.create('/routes', route)
    t.match((await sent()).message, { from: 'acme', deliveries: [{ target: 'spare' }] })
    // The partner's routes name acme for this sender, and nobody for the other one.
    t.match(await refusal({ sender: 'sender' }), { organization: /acme, initech/ })

    await client.create('/routes', { ...route, from: 'initech' })
    t.match(await refusal(), { organization: /acme, initech/ })
    t.match((await sent({ organization: 'initech' })).message, { from: 'initech' })
    await client.create('/routes', { ...route, from: '*', to: '*', target_plugin: 'sender' })
    t.match(await refusal({ organization: 'acme' }), { sender: /sender, spare/ })

    for (const each of (await client.get('/routes')).data['routes'] as { id: number }[])
      await client.delete(`/routes/${each.id}`)
    t.equal((await client.delete('/plugins/configs/as2-sender/spare')).status, 204)
    await client.delete(`/as2/local-profiles/${String(id)}`)
    await client.delete(`/organizations/${String(id)}`)
  },
)

t.test('of many organizations with an AS2 profile, ten are named and the others counted', async (t) => {
  const others = Array.from({ length: 12 }, (_, index) => `unit-${String(index + 10)}`)
  const made: number[] = []
  for (const name of others) {
    const { id } = await client.create('/organizations', { name })
    made.push(Number(id))
    await client.create('/as2/local-profiles', { local_organization_id: id, as2id: name })
  }
  const { id } = await client.create('/organizations', { name: 'aaa-without-profile' })
  t.same(await refusal(), {
    organization: `is required, because there is more than one: acme, ${others.slice(0, 9).join(', ')} and 3 more`,
  })
  for (const each of made) t.equal((await client.delete(`/as2/local-profiles/${each}`)).status, 204)
  for (const each of [...made, Number(id)])
    t.equal((await client.delete(`/organizations/${each}`)).status, 204)
})

t.test('one to a stopped sender waits, and goes out when the sender runs', async (t) => {
  const authority = makeCertificate({ commonName: 'globex ca', keyType: 'ec', authority: true })
  const issued = (commonName: string) =>
    makeCertificate({ commonName, keyType: 'ec', hosts: ['localhost'], issuer: authority })
  const server = issued('globex tls')
  const arrived: { messageId: string; client: string; authorization: string | undefined }[] = []
  const { port } = await httpsServer(
    t,
    {
      cert: server.certificatePem,
      key: server.privateKeyPem,
      ca: authority.certificatePem,
      requestCert: true,
      rejectUnauthorized: true,
    },
    (request, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate()
      const { 'message-id': messageId = '', authorization } = request.headers
      arrived.push({ messageId: String(messageId), client: String(subject.CN), authorization })
      request.resume().on('end', () => response.writeHead(503).end())
    },
  )
  const changed = await client.put(profile, {
    endpoint: `https://localhost:${port}/as2`,
    tls_ca_certificate_id: await storeCertificate(api, 'globex ca', authority, false),
    tls_client_certificate_id: await storeCertificate(api, 'acme tls', issued('acme tls'), true),
    http_basic_username: 'acme',
    http_basic_password: 'hunter2',
  })
  t.equal(changed.status, 200, changed.text)
  const { data } = await sent()
  t.equal((await client.post('/services/as2-sender/sender/start')).status, 200)
  const id = `<${String(data['message_id'])}@waybill>`
  await until(() => arrived.some(({ messageId }) => messageId === id), LIMIT_MS)
  t.match(
    arrived.find(({ messageId }) => messageId === id),
    { client: 'acme tls', authorization: `Basic ${Buffer.from('acme:hunter2').toString('base64')}` },
    'the sender shows and checks what the profile says',
  )
  await client.put(profile, {
    http_basic_username: '',
    http_basic_password: '',
    tls_client_certificate_id: null,
    tls_ca_certificate_id: null,
  })
})

t.test(
  'a server that never answers the TLS handshake holds a delivery no longer than the settings say',
  async (t) => {
    const silent = await silentServer(t)
    const settings = { name: 'brief', connect_timeout_seconds: 1, retry_initial_seconds: 3600 }
    await client.create('/plugins/configs?type=as2-sender', settings)
    t.equal((await client.post('/services/as2-sender/brief/start')).status, 200)
    const changed = await client.put(profile, { endpoint: `https://127.0.0.1:${silent.port}/as2` })
    t.equal(changed.status, 200, changed.text)
    const { data } = await sent({ sender: 'brief', organization: 'acme' })
    const path = `/messages/${String(data['message_id'])}`
    await until(async () => (await client.get(path)).data['status'] === 'Retrying', LIMIT_MS)
    t.match((await client.get(path)).data, { deliveries: [{ last_error: 'No connection within 1 s' }] })
  },
)

t.test('one to a running sender is delivered, and shows the receipt of the partner', async (t) => {
  const { acmeKeys, globexKeys } = partners
  const received: Incoming[] = []
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const message = await readMessage({
      headers: headerPairs(request.rawHeaders),
      body: await buffer(request),
      decryption: [globexKeys],
      signers: [acmeKeys.certificate],
      maxContentBytes: 100_000,
    })
    received.push(message)
    const receipt = await composeReceipt({
      as2From: message.as2To,
      as2To: message.as2From,
      messageId: '<receipt@globex>',
      date: new Date(),
      originalMessageId: message.messageId,
      disposition: PROCESSED,
      mic: message.mic,
      text: 'A receipt.',
      signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...globexKeys },
      product: 'Partner/1.0',
    })
    response.writeHead(200, receipt.headers.flat()).end(receipt.body)
  }
  const { port } = await httpServer(t, (request, response) => void take(request, response))
  t.equal((await client.put(profile, { endpoint: `http://127.0.0.1:${port}/as2` })).status, 200)
  const { data } = await sent({ sender: 'sender', organization: 'acme' })
  const path = `/messages/${String(data['message_id'])}`
  await until(async () => (await client.get(path)).data['status'] === 'Delivered', LIMIT_MS)
  t.match((await client.get(path)).data, {
    stage: 'settled',
    protocols: { as2: { signed: true, encrypted: true, receipt: { state: 'received', mic_matches: true } } },
  })
  const message = received.find(({ messageId }) => messageId === `<${String(data['message_id'])}@waybill>`)
  t.match(message, { fileName: data['file_name'], contentType: 'text/plain', signed: true, encrypted: true })
  t.match(message?.content.toString(), /This is a test message/)
})
