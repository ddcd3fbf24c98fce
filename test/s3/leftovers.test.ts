import { randomBytes, randomUUID } from 'node:crypto'
import { CreateMultipartUploadCommand, UploadPartCommand } from '@aws-sdk/client-s3'
import t from 'tap'
import { LeftoverSweep } from '../../storage/payloads/leftovers.ts'
import { moveBatch } from '../../storage/payloads/mover.ts'
import { S3Store } from '../../storage/payloads/s3/s3-store.ts'
import { execute, query } from '../../storage/postgres/pool.ts'
import { accept } from '../../storage/sql/accept.ts'
import { createTestDatabase } from '../support/database.ts'
import { newMessage } from '../storage/exchange/fixture.ts'
import { collected } from '../storage/payloads/store-contract.ts'
import { BUCKET, S3Server } from './s3-server.ts'

t.setTimeout(300_000)

const BETWEEN_PASSES_MS = 3_600_000

async function begin(t: Parameters<typeof createTestDatabase>[0]) {
  const server = await S3Server.start(t)
  const { pool, log } = await createTestDatabase(t)
  const store = S3Store.at(server.settings())
  t.teardown(async () => store.close())
  return { server, pool, log, store, client: server.client(t) }
}

t.test(
  'payloads without a message and uploads that were cut off are removed after a day, no others',
  async (t) => {
    const { pool, log, store, client } = await begin(t)
    const pass = async (): Promise<void> => {
      const sweep = new LeftoverSweep({ pool, store, log })
      while ((await sweep.round()) < BETWEEN_PASSES_MS);
    }
    const message = newMessage()
    await accept(pool, [message])
    t.equal(await moveBatch(pool, store, { limit: 10 }), 1)
    const orphan = randomUUID()
    await store.put(orphan, 'unpacked', Buffer.from('bytes'))
    const object = { Bucket: BUCKET, Key: `messages/${randomUUID()}/received` }
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(object))
    const Body = randomBytes(5 * 2 ** 20)
    await client.send(new UploadPartCommand({ ...object, UploadId, PartNumber: 1, Body }))
    await pass()
    t.same((await collected(store.messageIds())).toSorted(), [message.id, orphan].toSorted())
    t.equal((await collected(store.unfinished())).length, 1)
    await execute(pool, `update payload_leftover set found_at = found_at - interval '1 day'`)
    await pass()
    t.same(await collected(store.messageIds()), [message.id])
    t.same(await collected(store.unfinished()), [])
  },
)

t.test(
  'the mover leaves in the journal what the bucket does not take, and moves it when it does',
  async (t) => {
    const { server, pool, store } = await begin(t)
    const messages = Array.from({ length: 50 }, () => newMessage())
    await accept(pool, messages)
    await server.kill()
    await t.rejects(moveBatch(pool, store, { limit: 100 }), { name: 'StorageError', problem: 'unreachable' })
    const rows = await query(pool, 'select from journal')
    t.equal(rows.length, 50)
    await server.start()
    const moved = await Promise.all([1, 2].map(() => moveBatch(pool, store, { limit: 25 })))
    t.same(moved, [25, 25], 'by several nodes at once')
    t.same((await collected(store.messageIds())).toSorted(), messages.map(({ id }) => id).toSorted())
  },
)
