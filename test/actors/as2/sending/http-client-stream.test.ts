import type { IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { httpServer, tcpServer } from '../../../support/partner-server.ts'
import { until } from '../../../support/processes.ts'
import { client, numbered, partner, post, whole } from './posted-streams.ts'

t.setTimeout(300_000)

t.test('a stream goes chunked and without a length, and arrives whole', async (t) => {
  let taken: { request: IncomingMessage; body: Buffer } | undefined
  const { port } = await partner(t, async (request, response) => {
    taken = { request, body: await buffer(request) }
    response.end('ok')
  })
  const { state, body } = numbered(200)
  t.match(await client(t).post(post(port, body)), { status: 200, body: Buffer.from('ok') })
  t.match(taken?.request.headers, { 'transfer-encoding': 'chunked', 'content-length': undefined })
  t.ok(taken?.body.equals(whole(200)))
  t.match(state, { opened: 1, ended: 1 })
})

t.test('a stream of a known length goes with that length, and not chunked', async (t) => {
  let taken: { request: IncomingMessage; body: Buffer } | undefined
  const { port } = await partner(t, async (request, response) => {
    taken = { request, body: await buffer(request) }
    response.end('ok')
  })
  const { body } = numbered(40, { length: 40 * 65_536 })
  await client(t).post(post(port, body))
  t.match(taken?.request.headers, { 'transfer-encoding': undefined, 'content-length': String(40 * 65_536) })
  t.ok(taken?.body.equals(whole(40)))
})

t.test('no more of a stream is made than the partner takes', async (t) => {
  const { port } = await tcpServer(t, (socket) => socket.pause())
  const { state, body } = numbered(100_000)
  const stopping = new AbortController()
  const posted = client(t).post(post(port, body, { responseTimeoutMs: 1_000, signal: stopping.signal }))
  await t.rejects(posted, { message: 'No answer within 1 s' })
  t.ok(state.made < 2_000, `${state.made} of 100,000 chunks were made`)
  // The stream is closed, too.
  await until(() => state.ended === 1)
})

t.test('a stream that fails is broken off before its end, with its own error', async (t) => {
  const failure = new Error('The payload differs from what was stored')
  for (const length of [null, 41 * 65_536]) {
    const ends: (string | null)[] = []
    const { port } = await httpServer(t, (request, response) => {
      request.on('end', () => ends.push('whole'))
      request.on('error', () => ends.push('broken'))
      request.resume()
      response.on('error', () => undefined)
    })
    const { body } = numbered(40)
    async function* failing(): AsyncGenerator<Buffer> {
      yield* body.open()
      throw failure
    }
    const damaged = { ...body, open: failing, length }
    await t.rejects(client(t).post(post(port, damaged)), failure)
    await until(() => ends.length > 0)
    t.same(ends, ['broken'], `length ${length}`)
  }
})

t.test('an error that comes before the body is sent is the answer, and ends the sending', async (t) => {
  const { port, connections } = await httpServer(t, (_request, response) => {
    // The rest of the message is never read.
    response.writeHead(413, { 'content-type': 'text/plain' }).end('too large')
  })
  const { state, body } = numbered(100_000)
  const answer = await client(t).post(post(port, body))
  t.match(answer, { status: 413, body: Buffer.from('too large') })
  await until(() => connections.size === 0 && state.ended === 1)
  t.ok(state.made < 100_000)
})

t.test('a partner that begins its answer before it has the message still gets all of it', async (t) => {
  const { port } = await partner(t, async (request, response) => {
    response.writeHead(200).flushHeaders()
    const body = await buffer(request)
    response.end(String(body.length))
  })
  const { body } = numbered(100)
  t.match(await client(t).post(post(port, body)), { status: 200, body: Buffer.from(String(100 * 65_536)) })
})
