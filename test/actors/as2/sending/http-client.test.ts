import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { HttpClient, type Post } from '../../../../actors/as2/sending/http-client.ts'

const MIB = 2 ** 20
/** Far beyond what any of these should take. */
const LONG_MS = 600_000

t.setTimeout(120_000)

/** A server of bytes: what it does with a connection is the test's. */
async function serve(t: Test, behave: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    behave(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  return `http://127.0.0.1:${port}/as2`
}

function client(t: Test): HttpClient {
  const made = new HttpClient(2)
  t.teardown(async () => made.close())
  return made
}

const post = (url: string, more: Partial<Post> = {}): Post => ({
  url,
  tls: {},
  headers: [['AS2-From', 'ACME']],
  body: Buffer.alloc(32 * MIB),
  connectTimeoutMs: LONG_MS,
  responseTimeoutMs: LONG_MS,
  signal: new AbortController().signal,
  ...more,
})

t.test('a partner that takes nothing of a message is given up', async (t) => {
  const url = await serve(t, (socket) => socket.pause())
  await t.rejects(client(t).post(post(url, { responseTimeoutMs: 500 })), {
    message: 'No answer within 0.5 s',
  })
})

t.test('a partner that takes a message and answers bit by bit for ever is given up', async (t) => {
  const url = await serve(t, (socket) => {
    socket.resume()
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n')
    const drip = setInterval(() => socket.write('x'), 20)
    socket.on('close', () => clearInterval(drip))
  })
  const body = Buffer.from('small')
  await t.rejects(client(t).post(post(url, { responseTimeoutMs: 700, body })), {
    message: 'No answer within 0.7 s',
  })
})

t.test('an answer larger than any receipt is given up', async (t) => {
  const url = await serve(t, (socket) => {
    socket.resume()
    socket.write('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n')
    socket.write(Buffer.alloc(2 * MIB))
  })
  await t.rejects(client(t).post(post(url, { body: Buffer.from('small') })), {
    message: `The answer is larger than ${MIB} bytes`,
  })
})

t.test('a post under way ends with the reason of its signal', async (t) => {
  const stopping = new AbortController()
  const url = await serve(t, (socket) => {
    socket.once('data', () => stopping.abort(new Error('The instance was stopped')))
  })
  await t.rejects(client(t).post(post(url, { signal: stopping.signal })), {
    message: 'The instance was stopped',
  })
  await t.rejects(client(t).post(post(url, { signal: stopping.signal })), {
    message: 'The instance was stopped',
  })
})

t.test('the whole of a large message arrives, in order', async (t) => {
  const body = Buffer.from(Array.from({ length: 3 * MIB }, (_, index) => index % 251))
  const received: Buffer[] = []
  const url = await serve(t, (socket) => {
    socket.on('data', (chunk) => {
      received.push(chunk)
      const all = Buffer.concat(received)
      const head = all.indexOf('\r\n\r\n')
      if (head > 0 && all.length === head + 4 + body.length)
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  const answer = await client(t).post(post(url, { body }))
  t.match(answer, { status: 200, body: Buffer.from('ok') })
  const all = Buffer.concat(received)
  t.ok(all.subarray(all.indexOf('\r\n\r\n') + 4).equals(body))
})

t.test('a link-local address or a metadata service is never sent anything', async (t) => {
  for (const host of ['169.254.169.254', '[fe80::1]', '[::ffff:169.254.169.254]', '100.100.100.200']) {
    await t.rejects(
      client(t).post(post(`http://${host}/as2`)),
      { message: /is a link-local address or a metadata service/ },
      host,
    )
  }
})
