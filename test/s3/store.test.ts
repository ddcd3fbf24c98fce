import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { S3Store } from '../../storage/payloads/s3/s3-store.ts'
import { collected, holdsToTheContract } from '../storage/payloads/store-contract.ts'
import { BUCKET, S3Server } from './s3-server.ts'

t.setTimeout(600_000)

async function begin(t: Test) {
  const server = await S3Server.start(t)
  const store = S3Store.at(server.settings())
  t.teardown(async () => store.close())
  const client = server.client(t)
  const keys = async (): Promise<string[]> => {
    const listed = await client.send(new ListObjectsV2Command({ Bucket: BUCKET }))
    const uploads = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }))
    return [...(listed.Contents ?? []), ...(uploads.Uploads ?? [])].map(({ Key }) => Key ?? '').toSorted()
  }
  return { server, store, client, keys }
}

t.test('a bucket', async (t) => {
  holdsToTheContract(t, async (t) => {
    const { store, client, keys } = await begin(t)
    return {
      store,
      damage: async (messageId, stage, change) => {
        const object = { Bucket: BUCKET, Key: `messages/${messageId}/${stage}` }
        const { Body } = await client.send(new GetObjectCommand(object))
        const bytes = Buffer.from((await Body?.transformToByteArray()) ?? [])
        await client.send(new PutObjectCommand({ ...object, Body: change(bytes) }))
      },
      everything: keys,
    }
  })
})

t.test('a stage lies at messages/<message id>/<stage>, a large one too', async (t) => {
  const { server, store, keys } = await begin(t)
  const id = randomUUID()
  await store.put(id, 'headers', Buffer.from('small'))
  await store.put(id, 'received', Readable.from([randomBytes(20_000_000)]))
  t.same(await keys(), [`messages/${id}/headers`, `messages/${id}/received`])
  t.ok(existsSync(join(server.folder(), 'messages', id, 'received')), 'path style: the bucket is in the path')
  t.equal(store.place, `the bucket ${BUCKET} at ${server.endpoint}`)
})

t.test('what is in the bucket beside messages is none of them', async (t) => {
  const { store, client } = await begin(t)
  for (const Key of ['README', `other/${randomUUID()}/unpacked`, 'messages/readme/unpacked'])
    await client.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body: 'bytes' }))
  const id = randomUUID()
  await store.put(id, 'headers', Buffer.from('bytes'))
  t.same(await collected(store.messageIds()), [id])
})

t.test('more messages than one page of a list are all listed', async (t) => {
  const { server, store } = await begin(t)
  const ids = Array.from({ length: 1_050 }, () => randomUUID())
  // The server's own files: so many requests would only take long.
  for (const id of ids) {
    await mkdir(join(server.folder(), 'messages', id), { recursive: true })
    await writeFile(join(server.folder(), 'messages', id, 'headers'), 'x')
  }
  t.same((await collected(store.messageIds())).toSorted(), ids.toSorted())
})

t.test('an upload that a killed process left is listed, and aborted with all its parts', async (t) => {
  const { store, client, keys } = await begin(t)
  const object = { Bucket: BUCKET, Key: `messages/${randomUUID()}/received` }
  for (let uploads = 0; uploads < 2; uploads += 1) {
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(object))
    const part = { ...object, UploadId, PartNumber: 1, Body: randomBytes(5 * 2 ** 20) }
    await client.send(new UploadPartCommand(part))
  }
  const unfinished = await collected(store.unfinished())
  t.equal(unfinished.length, 2)
  t.equal(await store.open(object.Key.split('/')[1] ?? '', 'received'), undefined)
  for (const name of unfinished) {
    await store.discard(name)
    await store.discard(name)
  }
  t.same(await keys(), [])
})

t.test('a signal that fires ends what many puts still have to send', async (t) => {
  const { store } = await begin(t)
  const items = Array.from({ length: 200 }, () => ({
    messageId: randomUUID(),
    stage: 'unpacked' as const,
    bytes: randomBytes(200_000),
  }))
  await t.rejects(store.putMany(items, AbortSignal.abort()), { name: 'StorageError', problem: 'unreachable' })
  t.same(await collected(store.messageIds()), [])
})

t.test(
  'credentials, bucket and region that are not accepted are told in words, without credentials',
  async (t) => {
    const { server } = await begin(t)
    const right = server.credentials
    const cases: readonly {
      readonly name: string
      readonly env?: Record<string, string>
      readonly other?: Parameters<S3Server['settings']>[0]
      readonly reason: RegExp
    }[] = [
      {
        name: 'no bucket',
        other: { storage_s3_bucket: 'nobody' },
        reason: /^The bucket does not exist \(NoSuchBucket\)$/,
      },
      {
        name: 'another region',
        other: { storage_s3_region: 'us-east-1' },
        reason: /^The bucket is in another region/,
      },
      {
        name: 'wrong secret',
        env: { AWS_SECRET_ACCESS_KEY: 'wrong-secret' },
        reason: /^The secret access key is wrong/,
      },
      { name: 'unknown key', env: { AWS_ACCESS_KEY_ID: 'wrong-key' }, reason: /^The access key is unknown/ },
    ]
    for (const { name, env = {}, other = {}, reason } of cases) {
      Object.assign(process.env, right, env)
      const store = S3Store.at(server.settings(other))
      t.teardown(async () => store.close())
      const attempts = {
        reach: () => store.reach(),
        put: () => store.put(randomUUID(), 'unpacked', Buffer.from('bytes')),
        open: () => store.open(randomUUID(), 'unpacked'),
      }
      for (const [what, attempt] of Object.entries(attempts)) {
        const error = await attempt().then(
          () => null,
          (thrown: unknown) => thrown,
        )
        t.match(error, { name: 'StorageError', problem: 'refused', reason }, `${name}: ${what}`)
        const told = (error as Error).message
        const secrets = [
          right['AWS_SECRET_ACCESS_KEY'],
          right['AWS_ACCESS_KEY_ID'],
          'wrong-secret',
          'wrong-key',
        ]
        t.notOk(
          secrets.some((secret) => told.includes(secret ?? '')),
          told,
        )
      }
    }
    Object.assign(process.env, right)
  },
)
