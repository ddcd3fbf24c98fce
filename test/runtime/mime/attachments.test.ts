import fc from 'fast-check'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { isSeveralFiles, partFacts, type PartFacts } from '../../../runtime/mime/attachment.ts'
import { AttachmentList, type Attachment } from '../../../runtime/mime/attachment-list.ts'
import { MimeError } from '../../../runtime/mime/mime-error.ts'
import { formatMultipart, relatedContentType } from '../../../runtime/mime/multipart-format.ts'
import { partEvents } from '../../../runtime/mime/part-events.ts'
import { inChunks } from './chunks.ts'

interface ReadPart extends PartFacts {
  readonly content: Buffer
}

async function partsOf(contentType: string, chunks: readonly Buffer[]): Promise<ReadPart[]> {
  const parts: { facts: PartFacts; chunks: Buffer[] }[] = []
  for await (const event of partEvents(contentType, Readable.from(chunks))) {
    if (event.kind === 'begin') parts.push({ facts: partFacts(event.headers), chunks: [] })
    if (event.kind === 'bytes') parts.at(-1)?.chunks.push(event.bytes)
  }
  return parts.map(({ facts: { fileName, contentType: type }, chunks: content }) => ({
    fileName,
    contentType: type,
    content: Buffer.concat(content),
  }))
}

function listed(contentType: string, body: string | Buffer): readonly Attachment[] | null {
  const list = AttachmentList.of(contentType)
  list?.write(Buffer.from(body))
  return list?.end() ?? null
}

t.test(
  'files of any names and bytes come out of a multipart as they went in, however it is chunked',
  async (t) => {
    const file = fc.record({
      // A name that nothing is left of, or with a quoted word in it, is the sanitising's matter.
      fileName: fc
        .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
        .filter((name) => !name.includes('=?')),
      contentType: fc.constantFrom('application/edifact', 'text/plain; charset=utf-8', 'image/png'),
      content: fc.oneof(
        fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
        fc
          .constantFrom('', '\r\n', '--', '\r\n--boundar', '--boundary', '\n--boundary-', '\r')
          .map((text) => Buffer.from(text)),
      ),
    })
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })
    await fc.assert(
      fc.asyncProperty(fc.array(file, { minLength: 1, maxLength: 5 }), sizes, async (files, chunkSizes) => {
        const boundary = '=_a boundary that occurs nowhere'
        const opened = files.map((each) => ({ ...each, open: () => Readable.from([each.content]) }))
        const body = await buffer(formatMultipart(boundary, opened))
        const contentType = relatedContentType(boundary, files[0]?.contentType ?? '')
        const parts = await partsOf(contentType, inChunks(body, chunkSizes))
        const expected = files.map((each) => ({ ...each, fileName: each.fileName.toWellFormed() }))
        t.same(parts, expected)
        t.same(
          listed(contentType, body)?.map(({ fileName, sizeBytes }) => [fileName, sizeBytes]),
          expected.map(({ fileName, content }) => [fileName, content.length]),
        )
      }),
      { numRuns: 300 },
    )
  },
)

const ODD = [
  'This is a preamble.',
  '--x',
  '',
  'no headers at all',
  '--x  ',
  'content-type: TEXT/plain;',
  '\tname="=?UTF-8?Q?R=C3=BCckgabe.txt?="',
  '',
  'folded',
  '--x',
  'Content-Disposition: attachment; filename*=UTF-8\'\'a%20b.bin; filename="other.bin"',
  'Content-Transfer-Encoding: base64',
  'Content-ID: <root@globex>',
  '',
  'aGVs',
  'bG8=',
  '--x',
  'Content-Disposition: attachment; filename=C:\\orders\\4711.edi',
  'Content-Transfer-Encoding: Quoted-Printable',
  '',
  'a=3Db=',
  'c',
  '--x',
  'UNB+UNOA:1 without a blank line',
  '--x--',
  'An epilogue.',
]

t.test('odd forms of parts are read: no headers, folded and encoded names, transfer encodings', async (t) => {
  const type = 'multipart/related; boundary=x; type="text/plain"; start="<root@globex>"'
  const texts = ['no headers at all', 'folded', 'hello', 'a=bc', 'UNB+UNOA:1 without a blank line']
  const names = [null, 'Rückgabe.txt', 'a b.bin', 'C:\\orders\\4711.edi', null]
  for (const lineBreak of ['\r\n', '\n']) {
    const body = Buffer.from(ODD.join(lineBreak))
    const parts = await partsOf(type, [body])
    t.same(
      parts.map(({ content }) => content.toString()),
      texts,
    )
    t.same(
      parts.map(({ fileName }) => fileName),
      names,
    )
    t.same(parts[0]?.contentType, 'application/octet-stream')
    const list = listed(type, body)
    t.match(list?.[0], { part: 3, fileName: 'a b.bin', sizeBytes: 5 }, 'the start parameter names the root')
    t.same(
      list?.map(({ part }) => part),
      [3, 1, 2, 4, 5],
    )
  }
})

t.test('what is no list of files is told from what is a malformed one', (t) => {
  t.equal(listed('application/edifact', 'UNB'), null)
  t.equal(listed('multipart/alternative; boundary=x', 'UNB'), null)
  t.ok(isSeveralFiles('Multipart/Mixed; boundary=x'))
  t.notOk(isSeveralFiles('multipart/related'))
  const malformed: Readonly<Record<string, readonly [type: string, body: string]>> = {
    'no boundary': ['multipart/related', '--x\r\n\r\na\r\n--x--'],
    'no closing delimiter': ['multipart/related; boundary=x', '--x\r\n\r\na\r\n'],
    'no parts': ['multipart/mixed; boundary=x', '--x--'],
    'too many parts': ['multipart/related; boundary=x', `${'--x\r\n\r\n'.repeat(1_001)}--x--`],
  }
  for (const [reason, [type, body]] of Object.entries(malformed))
    t.throws(() => listed(type, body), new MimeError(reason))
  t.equal(listed('multipart/related; boundary=x', `${'--x\r\n\r\n'.repeat(1_000)}--x--`)?.length, 1_000)
  t.end()
})

t.test('a part in an unknown transfer encoding is taken as it is, and nobody knows its type', (t) => {
  const head = 'Content-Type: text/plain; name="a.txt"\r\nContent-Transfer-Encoding: x-uuencode'
  const list = listed('multipart/related; boundary=x', `--x\r\n${head}\r\n\r\n=41\r\n--x--`)
  t.same(list, [{ part: 1, fileName: 'a.txt', contentType: 'application/octet-stream', sizeBytes: 3 }])
  t.end()
})

t.test(
  'a part of any size passes through: its headers alone are held, and at most 64 KiB of them',
  async (t) => {
    const chunk = Buffer.alloc(65_536, 'payload\n')
    const chunks = 512
    async function* endless(): AsyncGenerator<Buffer> {
      yield Buffer.from('--x\r\nContent-Type: text/plain\r\n\r\n')
      for (let count = 0; count < chunks; count += 1) yield chunk
      yield Buffer.from('\r\n--x\r\n')
      // Headers without end are none.
      for (let count = 0; count < 3; count += 1) yield Buffer.alloc(65_536, 'Header: value\r\n')
      yield Buffer.from('\r\n--x--')
    }
    const sizes: number[] = []
    for await (const event of partEvents('multipart/related; boundary=x', endless())) {
      if (event.kind === 'begin') sizes.push(0)
      if (event.kind === 'bytes') sizes.push((sizes.pop() ?? 0) + event.bytes.length)
    }
    t.same(sizes, [chunk.length * chunks, 3 * 65_536])
  },
)
