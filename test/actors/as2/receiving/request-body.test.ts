import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { RequestBody, type BodyOptions } from '../../../../actors/as2/receiving/request-body.ts'

t.setTimeout(120_000)

const MIB = 1024 * 1024
const HEAD = 'POST /as2 HTTP/1.1\r\nHost: x\r\n'

interface Site {
  readonly socket: Socket
  /** What became of the body of the request: its length, or what it broke off with. */
  readonly outcome: Promise<number | Error>
  readonly response: Promise<ServerResponse>
}

/** A connection whose first request is read within limits. */
async function open(t: Test, options: Partial<BodyOptions>): Promise<Site> {
  const outcome = Promise.withResolvers<number | Error>()
  const answered = Promise.withResolvers<ServerResponse>()
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    answered.resolve(response)
    const body = new RequestBody(request, { maxBytes: MIB, begin: null, ...options })
    read(body).then(outcome.resolve, outcome.resolve)
  }
  const server = createServer(listener)
  server.on('checkContinue', listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  t.teardown(() => {
    socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  return { socket, outcome: outcome.promise, response: answered.promise }
}

async function read(body: RequestBody): Promise<number> {
  let bytes = 0
  for await (const chunk of body) bytes += chunk.length
  return bytes
}

t.test('a body is read to its end, with a length or in chunks, with extensions and trailers', async (t) => {
  const plain = await open(t, {})
  plain.socket.write(`${HEAD}Content-Length: 0005\r\n\r\nhello`)
  t.equal(await plain.outcome, 5)
  const chunked = await open(t, {})
  chunked.socket.write(
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n`,
  )
  t.equal(await chunked.outcome, 5)
})

t.test('a sender that is silent is given up', async (t) => {
  const { socket, outcome } = await open(t, { windowMs: 200 })
  socket.write(`${HEAD}Content-Length: 5\r\n\r\nhel`)
  t.match(await outcome, { name: 'BodyTooSlow' })
})

t.test('a sender that sends bit by bit is given up, however long it goes on', async (t) => {
  const { socket, outcome } = await open(t, { windowMs: 300, leastBytesPerSecond: 1_000_000 })
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`)
  const drip = setInterval(() => socket.write('1\r\nx\r\n'), 5)
  t.teardown(() => clearInterval(drip))
  t.match(await outcome, { name: 'BodyTooSlow' })
})

t.test('more is asked of a sender while others wait for its place', async (t) => {
  const { promise, resolve } = Promise.withResolvers<number | Error>()
  const asked = Promise.withResolvers<'asked'>()
  const server = createServer((request) => {
    const body = new RequestBody(request, {
      maxBytes: MIB,
      begin: null,
      windowMs: 300,
      leastBytesPerSecond: 1,
    })
    body.demand(() => {
      asked.resolve('asked')
      return 1_000_000
    })
    read(body).then(resolve, resolve)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`)
  const drip = setInterval(() => socket.write('1\r\nx\r\n'), 5)
  t.teardown(() => {
    clearInterval(drip)
    socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  t.match(await promise, { name: 'BodyTooSlow' })
  t.equal(await asked.promise, 'asked')
})

t.test('a body without an end, in trailers that go on and on, is given up', async (t) => {
  const { socket, outcome } = await open(t, { windowMs: 300 })
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n`)
  const drip = setInterval(() => socket.write('X: y\r\n'), 5)
  t.teardown(() => clearInterval(drip))
  t.match(await outcome, { name: /BodyTooSlow|ClientGone/ })
})

t.test('trailers larger than headers may be end the connection', async (t) => {
  const { socket, outcome } = await open(t, {})
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n${'X: yyyyyyyy\r\n'.repeat(20_000)}`)
  t.match(await outcome, { name: 'ClientGone' })
})

t.test('a sender is not charged with the time that the reader takes', async (t) => {
  const { promise, resolve } = Promise.withResolvers<number | Error>()
  const server = createServer((request, response) => {
    const body = new RequestBody(request, {
      maxBytes: MIB,
      begin: null,
      windowMs: 400,
      leastBytesPerSecond: 1_000,
    })
    const slowly = async (): Promise<number> => {
      await body.next()
      // Longer than the window, while all that is left has come in.
      await new Promise((wake) => setTimeout(wake, 1_000))
      return read(body)
    }
    slowly().then(resolve, resolve)
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  t.teardown(() => {
    socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  socket.on('error', () => undefined)
  socket.write(`${HEAD}Content-Length: ${MIB}\r\n\r\n`)
  socket.write(Buffer.alloc(MIB))
  t.type(await promise, 'number')
})

t.test('more than is allowed ends the reading, and a sender that goes away does', async (t) => {
  const large = await open(t, { maxBytes: 4 })
  large.socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`)
  t.match(await large.outcome, { name: 'BodyTooLarge' })
  const gone = await open(t, {})
  gone.socket.write(`${HEAD}Content-Length: 5\r\n\r\nhel`)
  await gone.response
  gone.socket.destroy()
  t.match(await gone.outcome, { name: 'ClientGone' })
})

t.test('a sender that waits to be told is told when its body is wanted', async (t) => {
  const told = Promise.withResolvers<'told'>()
  const { socket, outcome } = await open(t, { begin: () => told.resolve('told') })
  socket.write(`${HEAD}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`)
  t.equal(await told.promise, 'told')
  socket.write('hello')
  t.equal(await outcome, 5)
})
