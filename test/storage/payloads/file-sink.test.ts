import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import fc from 'fast-check'
import t from 'tap'
import { FileSink } from '../../../storage/payloads/file-sink.ts'
import { temporaryDirectory } from '../../support/processes.ts'

const MIB = 1024 * 1024

async function closed(sink: FileSink): Promise<void> {
  if (!sink.closed) await once(sink, 'close')
}

t.test('A file has the bytes that were written, in whatever pieces they came', async (t) => {
  const directory = await temporaryDirectory(t)
  const pieces = fc.array(
    fc.oneof(
      fc.record({ bytes: fc.nat({ max: 100 }), times: fc.integer({ min: 1, max: 2_000 }) }),
      fc.record({ bytes: fc.nat({ max: 2 * MIB }), times: fc.integer({ min: 1, max: 3 }) }),
    ),
    { maxLength: 6 },
  )
  let files = 0
  await fc.assert(
    fc.asyncProperty(pieces, async (wishes) => {
      const chunks = wishes.flatMap(({ bytes, times }, index) =>
        Array.from({ length: times }, (_, time) => Buffer.alloc(bytes, index + time)),
      )
      const path = join(directory, String(files++))
      await pipeline(Readable.from(chunks), new FileSink(await open(path, 'wx')))
      return Buffer.concat(chunks).equals(await readFile(path))
    }),
    { numRuns: 60 },
  )
})

t.test('A file that is synced while it is written has all of its bytes', async (t) => {
  const path = join(await temporaryDirectory(t), 'large')
  const chunk = Buffer.alloc(MIB, 'large ')
  await pipeline(Readable.from(Array.from({ length: 70 }, () => chunk)), new FileSink(await open(path, 'wx')))
  const written = await readFile(path)
  t.equal(written.length, 70 * MIB)
  for (let at = 0; at < written.length; at += MIB) t.ok(written.subarray(at, at + MIB).equals(chunk))
})

t.test('A file that takes no bytes fails its writing, and is closed', async (t) => {
  const path = join(await temporaryDirectory(t), 'read-only')
  await (await open(path, 'wx')).close()
  for (const bytes of [10, 3 * MIB]) {
    const file = await open(path, 'r')
    const sink = new FileSink(file)
    await t.rejects(pipeline(Readable.from([Buffer.alloc(bytes)]), sink), { code: 'EBADF' })
    await closed(sink)
    t.equal(file.fd, -1, 'the file is closed')
  }
})

t.test('A source that fails closes the file, which keeps what it has', async (t) => {
  const path = join(await temporaryDirectory(t), 'half')
  const file = await open(path, 'wx')
  const failing = Readable.from(
    (function* () {
      yield Buffer.alloc(MIB)
      throw new Error('The source has failed')
    })(),
  )
  const sink = new FileSink(file)
  await t.rejects(pipeline(failing, sink), { message: 'The source has failed' })
  await closed(sink)
  t.equal(file.fd, -1, 'the file is closed')
})
