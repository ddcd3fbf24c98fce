import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { bothWays } from './openas2/combinations.ts'
import { Exchange } from './openas2/exchange.ts'

const SIZE_BYTES = 200 * 1024 * 1024
const CHUNK_BYTES = 1024 * 1024
const FILE_NAME = 'large.bin'
const NAME = 'large'

/** Writes a file of chance, and answers its SHA-256. */
async function writeLargeFile(path: string): Promise<string> {
  const digest = createHash('sha256')
  const file = await open(path, 'wx')
  for (let written = 0; written < SIZE_BYTES; written += CHUNK_BYTES) {
    const chunk = randomBytes(CHUNK_BYTES)
    digest.update(chunk)
    await file.write(chunk)
  }
  await file.close()
  return digest.digest('hex')
}

async function digestOfFile(path: string): Promise<string> {
  const digest = createHash('sha256')
  await pipeline(createReadStream(path), digest)
  return digest.digest('hex')
}

void t.test(
  'a file of 200 MB, signed and encrypted, with a signed receipt and a Content-Length',
  async (t) => {
    const secure = { signature: 'sha256', encryption: 'aes256', receipt: 'signed' } as const
    // OpenAS2 copies all that it has for each chunk that comes: with chunks it would need minutes.
    const profile = { chunked_transfer: false }
    const exchange = await Exchange.start(t, [bothWays(NAME, secure, { profile })], { heapMegabytes: 6_144 })

    await t.test('goes from us to OpenAS2', async (t) => {
      const draft = join(exchange.outbox, '..', 'draft')
      const digest = await writeLargeFile(draft)
      await mkdir(join(exchange.outbox, NAME), { recursive: true })
      await rename(draft, join(exchange.outbox, NAME, FILE_NAME))
      const [message] = await exchange.settledTo(NAME)
      t.match(message, { status: 'Delivered', size_bytes: SIZE_BYTES })
      t.match(message?.protocols.as2?.receipt, { state: 'received', signed: true, mic_matches: true })
      t.equal(await digestOfFile(join(exchange.openAs2.inbox(NAME), FILE_NAME)), digest)
    })

    await t.test('comes from OpenAS2 to us', async (t) => {
      const draft = join(exchange.openAs2.draftFolder, 'draft')
      const digest = await writeLargeFile(draft)
      await exchange.openAs2.dropDraft(NAME, FILE_NAME, draft)
      const [message] = await exchange.settledFrom(NAME)
      t.match(message, { status: 'Delivered', size_bytes: SIZE_BYTES, file_name: FILE_NAME })
      const record = await exchange.receiptRecord(message?.protocols.as2?.message_id ?? '')
      t.equal(record.mic?.split(',')[0], message?.protocols.as2?.mic)
      t.equal(await digestOfFile(exchange.writtenPath(NAME, FILE_NAME)), digest)
    })
  },
)
