import { randomBytes, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { connectStore } from '../../storage/payloads/connect.ts'
import type { StorageSettings } from '../../storage/settings/storage-settings.ts'

/**
 * Stores so many bytes as one payload, from a stream, and reads them back without keeping any; tells the most memory that
 * the process had before, and in all, in KiB.
 */
const [settings = '', megabytes = ''] = process.argv.slice(2)
const store = await connectStore(JSON.parse(settings) as StorageSettings)
const chunk = randomBytes(2 ** 20)
function* chunks(count: number): Generator<Buffer> {
  for (let given = 0; given < count; given += 1) yield Buffer.from(chunk)
}
const id = randomUUID()
const pass = async (count: number): Promise<number> => {
  const { sha256 } = await store.put(id, 'received', Readable.from(chunks(count), { objectMode: false }))
  let read = 0
  for await (const bytes of (await store.open(id, 'received', { sha256 })) ?? [])
    read += (bytes as Buffer).length
  return read
}
await pass(1)
const before = process.resourceUsage().maxRSS
const startedAt = performance.now()
const read = await pass(Number(megabytes))
const { maxRSS } = process.resourceUsage()
console.log(JSON.stringify({ read, before, most: maxRSS, ms: Math.round(performance.now() - startedAt) }))
store.close()
