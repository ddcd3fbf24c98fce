import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { systemClock } from '../../runtime/clock.ts'
import { openPayloadStore } from '../../storage/payloads/open-store.ts'
import { S3Store } from '../../storage/payloads/s3/s3-store.ts'
import { StorageTest } from '../../storage/payloads/storage-test.ts'
import { isStoreUnavailable } from '../../storage/storage-error.ts'
import { until } from '../support/processes.ts'
import { bytesIn, collected, sha256Of } from '../storage/payloads/store-contract.ts'
import { CuttingProxy } from './cutting-proxy.ts'
import { S3Server } from './s3-server.ts'

/** An S3 service that goes away, answers nothing or breaks off: told within a bound, nothing half, and used again. */

t.setTimeout(600_000)
// They mostly wait for limits.
t.jobs = 4

const MIB = 2 ** 20

function storeAt(t: Test, server: S3Server, endpoint = server.endpoint): S3Store {
  const store = S3Store.at(server.settings({ storage_s3_endpoint: endpoint }))
  t.teardown(async () => store.close())
  return store
}

const failureOf = (act: Promise<unknown>): Promise<unknown> =>
  act.then(
    () => null,
    (thrown: unknown) => thrown,
  )

t.test('a download that breaks off goes on where it ended', async (t) => {
  const server = await S3Server.start(t)
  const id = randomUUID()
  const bytes = randomBytes(12 * MIB)
  const { sha256 } = await storeAt(t, server).put(id, 'unpacked', bytes)
  const proxy = await CuttingProxy.start(t, server.place, 2 * MIB)
  const found = await bytesIn(storeAt(t, server, proxy.endpoint), id, 'unpacked', sha256)
  t.ok(bytes.equals(found ?? Buffer.of()))
  t.ok(proxy.cuts >= 5, `${proxy.cuts} connections were cut`)
})

t.test('a download that gets nowhere ends with an error', async (t) => {
  const server = await S3Server.start(t)
  const id = randomUUID()
  const { sha256 } = await storeAt(t, server).put(id, 'unpacked', randomBytes(12 * MIB))
  const proxy = await CuttingProxy.start(t, server.place, 2 * MIB)
  const stream = await storeAt(t, server, proxy.endpoint).open(id, 'unpacked', { sha256 })
  proxy.limitBytes = 0
  let handedOver = 0
  const reading = async (): Promise<void> => {
    for await (const chunk of stream as AsyncIterable<Buffer>) handedOver += chunk.length
  }
  t.ok(isStoreUnavailable(await failureOf(reading())))
  t.ok(handedOver < 12 * MIB)
})

t.test('an object that is replaced while it is read is never read half from each', async (t) => {
  const server = await S3Server.start(t)
  const direct = storeAt(t, server)
  const id = randomUUID()
  const { sha256 } = await direct.put(id, 'unpacked', randomBytes(12 * MIB))
  const proxy = await CuttingProxy.start(t, server.place, 2 * MIB)
  const stream = await storeAt(t, server, proxy.endpoint).open(id, 'unpacked', { sha256 })
  await direct.put(id, 'unpacked', randomBytes(12 * MIB))
  const reading = async (): Promise<void> => {
    for await (const chunk of stream as AsyncIterable<Buffer>) chunk.fill(0)
  }
  t.match(await failureOf(reading()), { name: 'StorageError' })
})

t.test('a server that is killed is unreachable, and used again when it is back', async (t) => {
  const server = await S3Server.start(t)
  const store = storeAt(t, server)
  const [small, large] = [randomUUID(), randomUUID()]
  const bytes = randomBytes(30 * MIB)
  const slow = new Readable({ read: () => undefined })
  const storing = failureOf(store.put(large, 'received', slow))
  slow.push(bytes.subarray(0, 20 * MIB))
  // A part has arrived, so the upload is under way.
  await until(async () => (await collected(store.unfinished())).length === 1)
  await server.kill()
  slow.push(bytes.subarray(20 * MIB))
  slow.push(null)
  const error = await storing
  t.match(error, { name: 'StorageError', problem: 'unreachable', message: /cannot be stored: / })
  t.ok(isStoreUnavailable(error))
  t.ok(isStoreUnavailable(await failureOf(store.put(small, 'headers', Buffer.from('bytes')))))
  t.ok(isStoreUnavailable(await failureOf(store.open(small, 'headers'))))
  t.match(await store.check(), { ok: false, step: 'write', problem: /^Nothing listens at the endpoint/ })
  await server.start()
  t.equal(await store.open(large, 'received'), undefined, 'nothing half was stored')
  for (const name of await collected(store.unfinished())) await store.discard(name)
  await store.put(small, 'headers', Buffer.from('bytes'))
  const { sha256 } = await store.put(large, 'received', bytes)
  t.equal(sha256, sha256Of(bytes))
  t.ok(bytes.equals((await bytesIn(store, large, 'received', sha256)) ?? Buffer.of()))
  t.same(await collected(store.unfinished()), [])
})

t.test('a server that comes back in the middle of a download is asked for the rest', async (t) => {
  const server = await S3Server.start(t)
  const store = storeAt(t, server)
  const id = randomUUID()
  const bytes = randomBytes(24 * MIB)
  const { sha256 } = await store.put(id, 'unpacked', bytes)
  const stream = (await store.open(id, 'unpacked', { sha256 })) as AsyncIterable<Buffer>
  const found: Buffer[] = []
  for await (const chunk of stream) {
    if (found.length === 0) {
      await server.kill()
      await server.start()
    }
    found.push(chunk)
  }
  t.ok(bytes.equals(Buffer.concat(found)))
})

/** Takes connections and answers nothing. */
async function silentServer(t: Test): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).resume()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}

t.test('a server that says nothing is given up', async (t) => {
  const server = await S3Server.start(t)
  const endpoint = await silentServer(t)
  const store = storeAt(t, server, endpoint)
  const put = failureOf(store.put(randomUUID(), 'unpacked', Buffer.from('bytes')))
  const many = failureOf(
    store.putMany(
      [{ messageId: randomUUID(), stage: 'headers', bytes: Buffer.from('x') }],
      AbortSignal.timeout(1_000),
    ),
  )
  const test = new StorageTest({ clock: systemClock }).run(server.settings({ storage_s3_endpoint: endpoint }))
  const start = failureOf(openPayloadStore(server.settings({ storage_s3_endpoint: endpoint }), systemClock))
  t.match(await many, { problem: 'unreachable', message: /does not answer in time/ })
  t.match(await test, { ok: false, step: 'open', problem: /did not answer within 9 s/ })
  t.match(await put, { problem: 'unreachable', message: /does not answer in time/ })
  t.match(await start, {
    name: 'StorageError',
    message: /^The S3 bucket acme-payloads .* cannot be used: open: The storage did not answer within 30 s$/,
  })
})

t.test('slow readers keep no other from storing or reading', async (t) => {
  const server = await S3Server.start(t)
  const proxy = await CuttingProxy.start(t, server.place, Infinity)
  const store = storeAt(t, server, proxy.endpoint)
  const id = randomUUID()
  const bytes = randomBytes(4 * MIB)
  const { sha256 } = await store.put(id, 'unpacked', bytes)
  const slow = await Promise.all(Array.from({ length: 100 }, () => store.open(id, 'unpacked', { sha256 })))
  for (let times = 0; times < 20; times += 1) {
    const other = randomUUID()
    await store.put(other, 'headers', Buffer.from('bytes'))
    t.equal(String(await bytesIn(store, other, 'headers')), 'bytes')
  }
  // Their connections are given up when they were silent for a while; their downloads go on all the same.
  await until(() => proxy.connections < 10)
  for (const stream of slow.slice(0, 10)) {
    const found: Buffer[] = []
    for await (const chunk of stream ?? []) found.push(chunk as Buffer)
    if (!bytes.equals(Buffer.concat(found))) t.fail('other bytes')
  }
  for (const stream of slow) stream?.destroy()
})
