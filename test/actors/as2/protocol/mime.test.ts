import fc from 'fast-check'
import t from 'tap'
import {
  cmsBytes,
  decodeBody,
  formatEntity,
  MimeError,
  parseEntity,
  splitMultipart,
  toCrlf,
} from '../../../../actors/as2/protocol/mime.ts'

const split = (body: string, boundary = 'b'): string[] =>
  splitMultipart(`multipart/mixed; boundary="${boundary}"`, Buffer.from(body, 'latin1'), 5).map((part) =>
    part.toString('latin1'),
  )

t.test('The line break before a delimiter belongs to the delimiter', (t) => {
  t.same(split('--b\r\none\r\n\r\n--b\r\ntwo\r\n--b--\r\n'), ['one\r\n', 'two'])
  t.same(split('--b\none\n--b\ntwo\n--b--'), ['one', 'two'], 'with lone LFs and no final line break')
  t.same(split('preamble\r\n--b \t\r\none\r\n--b--epilogue\r\n--b\r\n'), ['one'])
  t.same(split('--b\r\n--b--'), [''], 'an empty part')
  t.same(split('--b\r\n--bc\r\nx--b\r\n--b--'), ['--bc\r\nx--b'], 'what only looks like a delimiter')
  t.same(split('--=_b\r\nx\r\n--=_b--', '=_b'), ['x'])
  t.throws(() => split('--b\r\none'), MimeError, 'no closing delimiter')
  t.throws(() => split('--b\r\n'.repeat(20)), MimeError, 'too many parts')
  t.throws(() => splitMultipart('multipart/mixed', Buffer.alloc(0), 2), MimeError, 'no boundary')
  t.end()
})

t.test('Parts of any bytes come out of a multipart as they went in', (t) => {
  const parts = fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(parts, (contents) => {
      const body = Buffer.concat([
        ...contents.flatMap((each) => [Buffer.from('\r\n--long-boundary\r\n'), Buffer.from(each)]),
        Buffer.from('\r\n--long-boundary--'),
      ])
      const found = splitMultipart('multipart/mixed; boundary=long-boundary', body, 5)
      return (
        found.length === contents.length && contents.every((each, at) => found[at]?.equals(each) === true)
      )
    }),
  )
  t.end()
})

t.test('An entity keeps the bytes it was received in', (t) => {
  const raw = formatEntity([['Content-Type', 'text/plain']], Buffer.from('a\r\n\r\nb'))
  const entity = parseEntity(raw, 'payload')
  t.equal(entity.body.toString(), 'a\r\n\r\nb')
  t.equal(entity.raw, raw)
  t.equal(entity.headers.get('content-type'), 'text/plain')
  t.end()
})

t.test('Bytes without headers are an entity without headers', (t) => {
  for (const bare of [
    "UNA:+.? 'UNB+UNOA",
    'UNA: a\r\n\r\nrest',
    '\r\nstarts blank',
    '<?xml version="1.0"?>\r\n\r\n',
  ]) {
    t.equal(parseEntity(Buffer.from(bare), 'payload').body.toString(), bare)
  }
  t.equal(
    parseEntity(Buffer.from('\r\nbody'), 'part').body.toString(),
    'body',
    'a part may begin with a blank line',
  )
  t.equal(
    parseEntity(Buffer.from('The message was received.'), 'part').body.toString(),
    'The message was received.',
  )
  t.end()
})

t.test('Transfer encodings are undone, and a missing one means binary', (t) => {
  const decoded = (encoding: string, body: string): string =>
    decodeBody(
      parseEntity(Buffer.from(`Content-Transfer-Encoding: ${encoding}\r\n\r\n${body}`), 'part'),
    ).toString()
  t.equal(decoded('Base64', 'YWJj\r\nZGVm\r\n'), 'abcdef')
  t.equal(decoded('quoted-printable', 'a=3D=\r\nb=0a=zz='), 'a=b\n=zz=')
  t.equal(decoded('binary', 'a=3D'), 'a=3D')
  t.equal(decoded('x-uuencode', 'YWJj=3D'), 'YWJj=3D', 'what nobody knows stays as it is')
  t.equal(decodeBody(parseEntity(Buffer.from('Content-Type: a/b\r\n\r\n=3D'), 'part')).toString(), '=3D')
  const ber = Buffer.from([0x30, 0x80, 0, 0])
  const cms = (encoding: string, body: Buffer): Buffer =>
    cmsBytes(parseEntity(formatEntity([['Content-Transfer-Encoding', encoding]], body), 'part'))
  t.same(cms('base64', ber), ber, 'binary that is called base64')
  t.same(cms('binary', Buffer.from(ber.toString('base64'))), ber, 'base64 that is called binary')
  t.same(cms('quoted-printable', Buffer.from('0=80=00=\r\n=00')), ber)
  t.end()
})

t.test('Lone line feeds become CRLF, and nothing else changes', (t) => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a', '\r', '\n', '\r\n'), { maxLength: 40 }), (pieces) => {
      const text = pieces.join('')
      return toCrlf(Buffer.from(text)).toString() === text.replace(/(?<!\r)\n/g, '\r\n')
    }),
  )
  const canonical = Buffer.from('a\r\nb')
  t.equal(toCrlf(canonical), canonical)
  t.end()
})
