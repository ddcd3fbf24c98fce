import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { httpServer, tcpServer } from '../../../support/partner-server.ts'
import { client, numbered, partner, post } from './posted-streams.ts'

/** `Expect: 100-continue`: a partner can refuse a large message before it travels. */

t.setTimeout(300_000)

t.test('a partner that is asked first may refuse, and no byte of the message travels', async (t) => {
  const refused: number[] = []
  const { port } = await httpServer(
    t,
    () => t.fail('the message was sent'),
    (request, response) => {
      refused.push(request.socket.bytesRead)
      response.writeHead(401).end('who are you')
    },
  )
  const { state, body } = numbered(1_000, { asksFirst: true })
  t.match(await client(t).post(post(port, body)), { status: 401 })
  t.equal(refused.length, 1)
  t.equal(state.opened, 0)
})

t.test('a partner that is asked first and wants the message gets it once', async (t) => {
  const expectations: (string | undefined)[] = []
  const { port } = await partner(t, async (request, response) => {
    expectations.push(request.headers.expect)
    response.end(String((await buffer(request)).length))
  })
  const { state, body } = numbered(30, { asksFirst: true })
  t.match(await client(t).post(post(port, body)), { body: Buffer.from(String(30 * 65_536)) })
  t.same(expectations, ['100-continue'])
  t.equal(state.opened, 1)
})

t.test('one that does not know the question gets the message, and is not asked again', async (t) => {
  const heads: string[] = []
  const { port } = await tcpServer(t, (socket) => {
    let received = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      const head = received.indexOf('\r\n\r\n')
      if (head < 0 || !received.subarray(-5).equals(Buffer.from('0\r\n\r\n'))) return
      heads.push(received.toString('latin1', 0, head))
      received = Buffer.alloc(0)
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  const http = client(t, 500)
  for (const _ of [1, 2]) {
    t.match(await http.post(post(port, numbered(20, { asksFirst: true }).body)), { status: 200 })
  }
  t.same(
    heads.map((head) => head.includes('Expect: 100-continue')),
    [true, false],
  )
})

t.test('one that refuses the question gets the message without it', async (t) => {
  const { port } = await partner(
    t,
    async (request, response) => void response.end(String((await buffer(request)).length)),
    (_request, response) => void response.writeHead(417).end(),
  )
  const { state, body } = numbered(20, { asksFirst: true })
  t.match(await client(t).post(post(port, body)), { status: 200, body: Buffer.from(String(20 * 65_536)) })
  t.equal(state.opened, 1)
})
