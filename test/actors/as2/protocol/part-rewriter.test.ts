import fc from 'fast-check'
import t from 'tap'
import { ComposeError } from '../../../../actors/as2/protocol/compose-error.ts'
import { rewriteParts, type PartChanges } from '../../../../actors/as2/protocol/part-rewriter.ts'
import { partFacts } from '../../../../runtime/mime/attachment.ts'
import { partEvents } from '../../../../runtime/mime/part-events.ts'
import { bytesOf, chunksOf, cuts, randomLike } from './stream/outgoing.ts'

const BOTH: PartChanges = { removesNames: true, encodesBase64: true }
const TYPE = 'multipart/related; boundary="x"; type="text/plain"'

const rewritten = async (
  content: Buffer,
  changes: PartChanges,
  at: readonly number[] = [],
): Promise<Buffer> => bytesOf(rewriteParts(TYPE, chunksOf(content, at), changes))

/** What a receiver makes of each part. */
async function filesOf(content: Buffer) {
  const files: { fileName: string | null; contentType: string; content: string }[] = []
  for await (const event of partEvents(TYPE, chunksOf(content, []))) {
    if (event.kind === 'begin') files.push({ ...partFacts(event.headers), content: '' })
    const last = files.at(-1)
    if (event.kind === 'bytes' && last !== undefined) last.content += event.bytes.toString('latin1')
  }
  return files
}

t.test('Names and encodings of parts are written anew, and all else stays byte for byte', async (t) => {
  const lines = [
    'preamble',
    '--x  ',
    'Content-ID: <root>',
    'Content-Type: text/xml; charset=utf-8;',
    ' name="order.xml"',
    'content-transfer-encoding: binary',
    'Content-Disposition: attachment; filename="order.xml"; filename*=UTF-8\'\'order.xml',
    'Content-Description: order.xml',
    '',
    '<a/>\n\0é',
    '--x',
    'Content-Disposition: attachment; filename=b.bin',
    'Content-Transfer-Encoding: base64',
    '',
    'QQ=',
    '--x',
    '',
    'odd',
    '--x--',
    'epilogue',
  ]
  const after = (changes: PartChanges) => rewritten(Buffer.from(lines.join('\r\n'), 'latin1'), changes)
  const encoded = Buffer.from('<a/>\n\0é', 'latin1').toString('base64')
  const both = [
    'preamble',
    '--x  ',
    'Content-ID: <root>',
    'Content-Type: text/xml; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    'Content-Disposition: attachment',
    '',
    encoded,
    '--x',
    'Content-Disposition: attachment',
    'Content-Transfer-Encoding: base64',
    '',
    'QQ=',
    '--x',
    'Content-Transfer-Encoding: base64',
    '',
    Buffer.from('odd').toString('base64'),
    '--x--',
    'epilogue',
  ]
  t.equal((await after(BOTH)).toString('latin1'), both.join('\r\n'))
  const unnamed = (await after({ ...BOTH, encodesBase64: false })).toString('latin1')
  t.equal(
    unnamed,
    both
      .with(4, 'content-transfer-encoding: binary')
      .with(7, '<a/>\n\0é')
      .with(16, 'odd')
      .toSpliced(14, 1)
      .join('\r\n'),
  )
  const named = (await after({ ...BOTH, removesNames: false })).toString('latin1')
  t.match(named, 'filename=b.bin\r\nContent-Transfer-Encoding: base64\r\n\r\nQQ=\r\n')
  t.match(named, `Content-Description: order.xml\r\n\r\n${encoded}\r\n`)
})

t.test('A part that consists of entities is not encoded', async (t) => {
  for (const type of ['multipart/mixed; boundary=y', 'message/rfc822']) {
    const content = Buffer.from(`--x\r\nContent-Type: ${type}\r\n\r\n--y\r\n\r\na\r\n--y--\r\n--x--\r\n`)
    t.same(await rewritten(content, { removesNames: false, encodesBase64: true }), content)
  }
})

t.test('A part in an encoding that nobody knows is left in it', async (t) => {
  const content = Buffer.from('--x\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\n#0V%T\r\n--x--\r\n')
  t.same(await rewritten(content, { removesNames: false, encodesBase64: true }), content)
})

t.test('Whatever stands in a multipart, the same files arrive, however its bytes come', async () => {
  const line = fc.constantFrom(
    '--x',
    '--x--',
    '--xy',
    '',
    'text \0 é',
    'Content-Type: text/plain; name="name.txt"',
    "Content-Type: text/csv; name*0=name; NAME*1*='name'; a=b",
    'Content-Disposition: inline; filename="name; \\"x.bin"',
    "Content-Disposition: attachment; filename*=UTF-8''name",
    'Content-Transfer-Encoding: quoted-printable',
    'Content-Transfer-Encoding: base64',
    'QUJD',
    '=41=',
  )
  const changes = fc.constantFrom(BOTH, { ...BOTH, removesNames: false }, { ...BOTH, encodesBase64: false })
  let parts = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { maxLength: 25 }),
      fc.constantFrom('\r\n', '\n'),
      changes,
      cuts,
      async (body, lineBreak, change, at) => {
        const content = Buffer.from(['--x', ...body, '--x--'].join(lineBreak), 'latin1')
        const whole = await rewritten(content, change)
        if (!whole.equals(await rewritten(content, change, at))) throw new Error('chunks make a difference')
        const [before, after] = [await filesOf(content), await filesOf(whole)]
        parts += after.length
        const told = ({ fileName, contentType, content: bytes }: (typeof before)[number]) =>
          change.removesNames ? [null, contentType.split(';', 1)[0], bytes] : [fileName, contentType, bytes]
        const expected = before.map((file) => told(file))
        const actual = after.map((file) =>
          change.removesNames ? [file.fileName, told(file)[1], file.content] : told(file),
        )
        if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error('other files arrive')
      },
    ),
    { numRuns: 500 },
  )
  t.ok(parts > 500, `${parts} parts`)
})

t.test('Large bodies come out in base64 whatever the chunks, and no part tells a name', async (t) => {
  const file = randomLike(1_000_000, 7)
  const content = Buffer.concat([
    Buffer.from('--x\r\nContent-Type: a/b; name=secret\r\nContent-Transfer-Encoding: binary\r\n\r\n'),
    file,
    Buffer.from('\r\n--x--\r\n'),
  ])
  const made = await rewritten(content, BOTH, [3, 50, 51, 70_000, 999_999])
  t.notMatch(made.toString('latin1'), /secret|[^\r\n\x20-\x7e]/)
  t.ok(made.equals(await rewritten(content, BOTH)))
  const [arrived] = await filesOf(made)
  t.ok(Buffer.from(arrived?.content ?? '', 'latin1').equals(file))
})

t.test('What is no multipart, or cut off, cannot be made as asked', async (t) => {
  for (const content of ['', 'text', '--x\r\n\r\ncut off'])
    await t.rejects(rewritten(Buffer.from(content), BOTH), ComposeError)
})
