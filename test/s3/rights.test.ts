import { PutBucketPolicyCommand } from '@aws-sdk/client-s3'
import t from 'tap'
import { systemClock } from '../../runtime/clock.ts'
import { openPayloadStore } from '../../storage/payloads/open-store.ts'
import { StorageTest } from '../../storage/payloads/storage-test.ts'
import { BUCKET, S3Server } from './s3-server.ts'

/** Credentials with some rights and not others: the storage test names the step that they are missing for. */

t.setTimeout(300_000)

const LIST = 's3:ListBucket'
const CASES: readonly { readonly rights: readonly string[]; readonly step: string | null }[] = [
  { rights: [], step: 'open' },
  { rights: ['s3:PutObject', 's3:GetObject', 's3:DeleteObject'], step: 'open' },
  { rights: [LIST, 's3:GetObject', 's3:DeleteObject'], step: 'write' },
  { rights: [LIST, 's3:PutObject', 's3:DeleteObject'], step: 'read' },
  { rights: [LIST, 's3:PutObject', 's3:GetObject'], step: 'delete' },
  { rights: [LIST, 's3:PutObject', 's3:GetObject', 's3:DeleteObject'], step: null },
]

t.test('a right that is missing is told with the step that needs it', async (t) => {
  const server = await S3Server.start(t)
  const client = server.client(t)
  const settings = server.settings()
  for (const [index, { rights, step }] of CASES.entries()) {
    const user = `user-${index}`
    Object.assign(process.env, await server.addUser(user))
    const allowed = {
      Effect: 'Allow',
      Principal: { AWS: [user] },
      Resource: [`arn:aws:s3:::${BUCKET}`, `arn:aws:s3:::${BUCKET}/*`],
    }
    const Policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: rights.map((Action) => {
        const Resource = Action === LIST ? allowed.Resource[0] : allowed.Resource[1]
        return { ...allowed, Action, Resource }
      }),
    })
    if (rights.length > 0) await client.send(new PutBucketPolicyCommand({ Bucket: BUCKET, Policy }))
    if (step === null) {
      t.same(await new StorageTest({ clock: systemClock, answerLimitMs: 60_000 }).run(settings), { ok: true })
      t.match(await openPayloadStore(settings, systemClock), { store: { place: String }, problem: null })
      continue
    }
    const told = `^The S3 bucket ${BUCKET} .* cannot be used: ${step}: Access is denied: .*\\(AccessDenied\\)$`
    await t.rejects(
      openPayloadStore(settings, systemClock),
      { name: 'StorageError', message: new RegExp(told) },
      rights.join(', ') || 'none',
    )
  }
})
