import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import t, { type Test } from 'tap'
import { HeldBody, MemoryBudget } from '../../../../actors/as2/receiving/held-body.ts'
import { RequestBody } from '../../../../actors/as2/receiving/request-body.ts'

t.setTimeout(300_000)

const MIB = 1024 * 1024

/** A body that comes in segment by segment, each of them a chunk of its own. */
interface Incoming<Read> {
  readonly send: (segment: Buffer) => Promise<void>
  readonly outcome: Promise<Read>
}

async function receive<Read>(
  t: Test,
  framing: string,
  read: (body: RequestBody) => Promise<Read>,
): Promise<Incoming<Read>> {
  const outcome = Promise.withResolvers<Read>()
  const server = createServer((request, response) => {
    const body = new RequestBody(request, { maxBytes: 4 * MIB, begin: null })
    read(body)
      .finally(() => response.end())
      .then(outcome.resolve, outcome.reject)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const client = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  client.setNoDelay()
  client.on('error', () => undefined)
  const [socket] = (await once(server, 'connection')) as [Socket]
  t.teardown(() => {
    client.destroy()
    server.closeAllConnections()
    server.close()
  })
  let sent = 0
  const send = async (segment: Buffer): Promise<void> => {
    client.write(segment)
    sent += segment.length
    while (socket.bytesRead < sent) await turn()
    await turn()
  }
  await send(Buffer.from(`POST /as2 HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n`))
  return { send, outcome: outcome.promise }
}

const buffersAlive = (): number => queryObjects(Buffer, { format: 'count' })

const hold = async (body: RequestBody): Promise<Buffer> => {
  const held = await new HeldBody(new MemoryBudget(MIB)).read(body)
  if (!Buffer.isBuffer(held)) throw new Error(`It is ${held}`)
  return held
}

/** Answers how many buffers there are more when so many segments have come in, and what became of them. */
async function buffersOf<Read>(
  t: Test,
  bytes: number,
  read: (body: RequestBody) => Promise<Read>,
): Promise<{ buffers: number; outcome: Read }> {
  const SEGMENTS = 3_000
  const { send, outcome } = await receive(t, `Content-Length: ${bytes}`, read)
  await send(Buffer.from('x'))
  const before = buffersAlive()
  for (let sent = 1; sent < SEGMENTS; sent += 1) await send(Buffer.from('x'))
  const buffers = buffersAlive() - before
  await send(Buffer.alloc(bytes - SEGMENTS, 'x'))
  return { buffers, outcome: await outcome }
}

t.test('a body that comes in byte by byte is not held in a buffer for each of them', async (t) => {
  const { buffers, outcome } = await buffersOf(t, 4_000, hold)
  t.ok(buffers < 500, `${buffers} more buffers`)
  t.ok(outcome.equals(Buffer.alloc(4_000, 'x')))
})

t.test('a large body that comes in byte by byte is read in chunks that are worth a buffer', async (t) => {
  const { buffers, outcome } = await buffersOf(t, 2 * MIB, async (body) => {
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk)
    return Buffer.concat(chunks)
  })
  t.ok(buffers < 500, `${buffers} more buffers`)
  t.ok(outcome.equals(Buffer.alloc(2 * MIB, 'x')))
})

t.test('what comes in segments of all sizes is put together as it was sent', async (t) => {
  const lengths = [1, 2, 5_000, 1, 1, 4_096, 4_095, 4_095, 4_095, 4_095, 4_095, 9, 30_000, 1, 20_000, 7, 0]
  const segments = lengths.map((length, each) => Buffer.alloc(length, String.fromCharCode(65 + each)))
  const all = Buffer.concat(segments)
  const { send, outcome } = await receive(t, `Content-Length: ${all.length}`, hold)
  for (const segment of segments) if (segment.length > 0) await send(segment)
  t.ok((await outcome).equals(all))
})

t.test('small segments before a body turns out to be large are not lost', async (t) => {
  const parts = [Buffer.from('a'), Buffer.from('bc'), Buffer.alloc(MIB, 'd'), Buffer.from('e')]
  const all = Buffer.concat(parts)
  const { send, outcome } = await receive(t, 'Transfer-Encoding: chunked', async (body) => {
    const held = await new HeldBody(new MemoryBudget(2 * MIB)).read(body)
    t.equal(held, 'large')
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk)
    return Buffer.concat(chunks)
  })
  for (const part of parts) {
    await send(Buffer.from(`${part.length.toString(16)}\r\n`))
    await send(part)
    await send(Buffer.from('\r\n'))
  }
  await send(Buffer.from('0\r\n\r\n'))
  t.ok((await outcome).equals(all))
})
