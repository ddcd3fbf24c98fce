import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { Post } from '../../../../actors/as2/sending/http-client.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { client, numbered, post, whole } from './posted-streams.ts'

t.setTimeout(120_000)

/** `below` is the TCP connection, whatever is spoken on it. */
type Behaviour = (request: IncomingMessage, response: ServerResponse, below: Socket) => unknown

interface Partner {
  readonly port: number
  /** The connection of each request, in the order in which they came. */
  readonly connections: Socket[]
}

const keys = makeCertificate({ commonName: 'partner', hosts: ['127.0.0.1'] })
const TLS = { cert: keys.certificatePem, key: keys.privateKeyPem }

/** Keeps its connections for longer than any of these takes; each request has its own behaviour. */
async function partner(t: Test, behaviours: readonly Behaviour[], secure = false): Promise<Partner> {
  const connections: Socket[] = []
  const open = new Map<number | undefined, Socket>()
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const behave = behaviours[connections.length]
    const below = open.get(request.socket.remotePort)
    if (behave === undefined || below === undefined) throw new Error('One request too many')
    connections.push(below)
    behave(request, response, below)
  }
  const server = secure ? createHttpsServer(TLS, take) : createHttpServer(take)
  server.keepAliveTimeout = 600_000
  server.on('checkContinue', take)
  server.on('connection', (socket) => open.set(socket.remotePort, socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, connections }
}

/** Takes the body, and answers with it. */
const answer: Behaviour = (request, response) => {
  if (request.headers.expect !== undefined) response.writeContinue()
  buffer(request).then(
    (body) => response.end(body),
    () => response.destroy(),
  )
}
/** As a firewall does that has forgotten the connection. */
const reset: Behaviour = (_request, _response, below) => below.resetAndDestroy()
/** As a server does that gives up an idle connection in this very moment. */
const close: Behaviour = ({ socket }) => socket.destroy()

const over = (port: number, secure: boolean, body: Post['body'], more: Partial<Post> = {}): Post =>
  post(port, body, {
    ...(secure ? { url: `https://127.0.0.1:${port}/as2`, tls: { ca: keys.certificatePem } } : {}),
    ...more,
  })

for (const secure of [false, true]) {
  const scheme = secure ? 'https' : 'http'
  for (const [name, lose] of Object.entries({ reset, closed: close })) {
    void t.test(
      `over ${scheme} a kept connection that is ${name} costs nothing: the request goes over a new one`,
      async (t) => {
        const { port, connections } = await partner(t, [answer, lose, answer], secure)
        const http = client(t)
        await http.post(over(port, secure, Buffer.from('first')))
        const second = await http.post(over(port, secure, Buffer.from('second')))
        t.match(second, { status: 200, body: Buffer.from('second') })
        t.equal(connections.length, 3)
        t.equal(connections[0], connections[1], 'the lost one was kept')
        t.not(connections[1], connections[2])
      },
    )
  }
}

for (const asksFirst of [false, true]) {
  const way = asksFirst ? 'one that is asked for first' : 'one that goes at once'
  void t.test(`a body that streams is opened again, ${way}`, async (t) => {
    const { port, connections } = await partner(t, [answer, reset, answer])
    const http = client(t)
    await http.post(post(port, Buffer.from('first')))
    const { body, state } = numbered(10, { asksFirst })
    const second = await http.post(post(port, body))
    t.ok(second.body.equals(whole(10)), 'it came whole')
    t.equal(connections.length, 3)
    t.equal(connections[0], connections[1])
    t.equal(state.opened, asksFirst ? 1 : 2)
  })
}

void t.test('it is repeated once, and what then fails is told', async (t) => {
  const { port, connections } = await partner(t, [answer, reset, reset, answer])
  const http = client(t)
  await http.post(post(port, Buffer.from('first')))
  await t.rejects(http.post(post(port, Buffer.from('second'))), { code: 'ECONNRESET' })
  t.equal(connections.length, 3)
})

void t.test('a new connection that is lost fails, whatever was kept before', async (t) => {
  const { port, connections } = await partner(t, [reset, answer])
  await t.rejects(client(t).post(post(port, Buffer.from('first'))), { code: 'ECONNRESET' })
  t.equal(connections.length, 1)
})

void t.test('a kept connection that is lost after the first byte of an answer fails', async (t) => {
  const begun: Behaviour = ({ socket }) => socket.end('H')
  const { port, connections } = await partner(t, [answer, begun, answer])
  const http = client(t)
  await http.post(post(port, Buffer.from('first')))
  await t.rejects(http.post(post(port, Buffer.from('second'))))
  t.equal(connections.length, 2)
  t.equal(connections[0], connections[1])
})

void t.test('a kept connection on which nothing comes in time fails', async (t) => {
  const { port, connections } = await partner(t, [answer, () => undefined, answer])
  const http = client(t)
  await http.post(post(port, Buffer.from('first')))
  await t.rejects(http.post(post(port, Buffer.from('second'), { responseTimeoutMs: 300 })), {
    message: 'No answer within 0.3 s',
  })
  t.ok(connections.length <= 2, 'it is not repeated')
})

void t.test('what is cut off, or has no body, is not repeated, whatever it looks like', async (t) => {
  const lost = Object.assign(new Error('of the test'), { code: 'ECONNRESET' })
  const stopping = new AbortController()
  const { port, connections } = await partner(t, [answer, () => stopping.abort(lost), answer, answer, answer])
  const http = client(t)
  await http.post(post(port, Buffer.from('first')))
  await t.rejects(http.post(post(port, Buffer.from('second'), { signal: stopping.signal })), lost)
  t.equal(connections.length, 2)

  await http.post(post(port, Buffer.from('third')))
  const { body, state } = numbered(1)
  async function* open(): AsyncGenerator<Buffer> {
    yield* body.open()
    throw lost
  }
  await t.rejects(http.post(post(port, { ...body, open })), lost)
  t.equal(state.opened, 1)
})
