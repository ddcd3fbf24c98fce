import fc from 'fast-check'
import t from 'tap'
import {
  formatDisposition,
  isPositive,
  parseDisposition,
  PROCESSED,
} from '../../../../actors/as2/protocol/disposition.ts'
import { decodeHeaderText, encodeHeaderText } from '../../../../runtime/mime/header-text.ts'
import { HeaderFields, parseHeaderBlock } from '../../../../runtime/mime/headers.ts'
import {
  formatAs2Name,
  isMessageId,
  newMessageId,
  parseAs2Name,
  sameMessageId,
} from '../../../../actors/as2/protocol/identifiers.ts'
import { formatMic, micEquals, micOf, parseMic } from '../../../../actors/as2/protocol/mic.ts'
import { fileNameOf, formatAttachment, parseParameters } from '../../../../runtime/mime/parameters.ts'
import { REFUSALS, dispositionOf } from '../../../../actors/as2/protocol/refusal.ts'

t.test('AS2 names are quoted only when a space, a quote or a backslash occurs', (t) => {
  t.equal(formatAs2Name('a,#![]<>;b'), 'a,#![]<>;b')
  t.equal(formatAs2Name('My Company'), '"My Company"')
  t.equal(formatAs2Name('a"b\\c'), '"a\\"b\\\\c"')
  t.equal(parseAs2Name(' "Acme" '), 'Acme', 'quoted without need')
  t.equal(parseAs2Name(''), null)
  t.equal(parseAs2Name('"   "'), null)
  t.equal(parseAs2Name('a\u0001'), null)
  t.equal(parseAs2Name('x'.repeat(129)), null)
  t.throws(() => formatAs2Name('Müller'), { name: 'ComposeError' })
  const names = fc.string({ minLength: 1, maxLength: 128 }).filter((name) => name.trim() !== '')
  fc.assert(fc.property(names, (name) => parseAs2Name(formatAs2Name(name)) === name))
  t.end()
})

t.test('Message-IDs are the same with and without brackets', (t) => {
  t.ok(sameMessageId('<a@b>', 'a@b'))
  t.ok(sameMessageId(' <a@b> ', '<a@b>'))
  t.notOk(sameMessageId('<a@b>', '<A@b>'))
  t.ok(isMessageId(newMessageId('host name')))
  t.notOk(isMessageId('<a\r\nb>'))
  t.notOk(isMessageId('x'.repeat(999)))
  t.end()
})

t.test('A file name of any Unicode survives Content-Disposition', (t) => {
  const names = fc.string({ unit: 'binary', minLength: 1, maxLength: 60 })
  fc.assert(
    fc.property(names, (name) => {
      const field = formatAttachment(name)
      return /^[\x20-\x7e]*$/.test(field) && fileNameOf(field, null) === name
    }),
    {
      examples: [
        ['ä b.edi'],
        ['"'],
        ['\\'],
        ["it's (1)*.xml"],
        ['=?utf-8?b?eA==?='],
        ['a\r\nb'],
        ['😀'],
        [' x '],
      ],
    },
  )
  t.equal(formatAttachment('invoice 1.edi'), 'attachment; filename="invoice 1.edi"')
  t.equal(formatAttachment(''), 'attachment')
  t.end()
})

t.test('File names are found in every form that products send', (t) => {
  t.equal(fileNameOf('attachment; filename=a.edi', null), 'a.edi')
  t.equal(fileNameOf('attachment;filename="a;b.edi"', null), 'a;b.edi')
  t.equal(fileNameOf(`attachment; filename="x"; filename*=iso-8859-1'de'%E4.edi`, null), 'ä.edi')
  t.equal(fileNameOf(`attachment; filename*0*=UTF-8''%C3; filename*1*=%A4; filename*2=".edi"`, null), 'ä.edi')
  t.equal(fileNameOf('attachment; filename="=?UTF-8?Q?=C3=A4_b.edi?="', null), 'ä b.edi')
  t.equal(fileNameOf(`attachment; filename="${Buffer.from('ä.edi').toString('latin1')}"`, null), 'ä.edi')
  t.equal(fileNameOf('attachment; filename="C:\\out\\a.edi"', null), 'C:\\out\\a.edi')
  t.equal(fileNameOf(null, 'application/edifact; name=a.edi'), 'a.edi')
  t.equal(fileNameOf('attachment', 'text/plain'), null)
  t.equal(fileNameOf('attachment; filename=""', null), null)
  t.end()
})

t.test('Parameters are read from what products write', (t) => {
  const { value, parameters } = parseParameters('Multipart/Signed;micalg=SHA1;\tBOUNDARY="=_a;b=c" ; x')
  t.equal(value, 'multipart/signed')
  t.equal(parameters.get('micalg'), 'SHA1')
  t.equal(parameters.get('boundary'), '=_a;b=c')
  t.equal(parseParameters('a/b; boundary=_=x=y').parameters.get('boundary'), '_=x=y')
  fc.assert(
    fc.property(
      fc.string({ maxLength: 200 }),
      (field) => parseParameters(field).value.length <= field.length,
    ),
  )
  t.end()
})

t.test('Text of any Unicode survives a header', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 120 }), (text) => {
      const field = encodeHeaderText(text)
      return /^[\x20-\x7e]*$/.test(field) && decodeHeaderText(field) === text
    }),
    { examples: [['Rechnung für März'], ['=?x?='], [' a '], ['😀'.repeat(40)]] },
  )
  t.equal(encodeHeaderText('Invoice 7'), 'Invoice 7')
  t.equal(decodeHeaderText('=?iso-8859-1?Q?M=FCller_?= =?utf-8?b?w6Q=?= end'), 'Müller ä end')
  t.equal(decodeHeaderText('=?no-such-charset?Q?x?='), '=?no-such-charset?Q?x?=')
  t.end()
})

const WIDE = ['a', ' ', '"', 'é', '€', '😀']

t.test('A line of a header has at most 998 octets: a text is cut at a whole character', (t) => {
  const texts = fc.string({ unit: fc.constantFrom(...WIDE), minLength: 200, maxLength: 1_500 })
  fc.assert(
    fc.property(texts, (text) => {
      const field = encodeHeaderText(text)
      const read = decodeHeaderText(field)
      const isWhole = read.isWellFormed() && text.startsWith(read)
      return isWhole && `Subject: ${field}`.length <= 998 && read.length > 150
    }),
    { examples: [['€'.repeat(500)], ['x'.repeat(2_000)], ['😀'.repeat(1_000)], [`${'x'.repeat(988)} y`]] },
  )
  t.end()
})

t.test('A file name that is too long for a line is cut at a whole character, before its ending', (t) => {
  const names = fc.string({ unit: fc.constantFrom(...WIDE), minLength: 200, maxLength: 1_500 })
  fc.assert(
    fc.property(names, fc.constantFrom('', '.edi', '.édi'), (name, ending) => {
      const field = formatAttachment(`${name}${ending}`)
      const read = fileNameOf(field, null) ?? ''
      const start = read.slice(0, read.length - ending.length)
      const isWhole = read.isWellFormed() && name.startsWith(start) && read.endsWith(ending)
      return isWhole && `Content-Disposition: ${field}`.length <= 998 && read.length > 60
    }),
    {
      examples: [
        ['€'.repeat(500), '.edi'],
        ['x'.repeat(2_000), ''],
        ['😀'.repeat(1_000), '.édi'],
      ],
    },
  )
  const longest = `${'ö'.repeat(125)}.edi`
  t.equal(fileNameOf(formatAttachment(longest), null), longest, 'what a record can hold is not cut')
  t.end()
})

t.test('Headers are found in any case, folded, and with tabs', (t) => {
  const block = parseHeaderBlock(Buffer.from('content-TYPE:\ttext/plain;\r\n\tcharset=x\nA : b\r\n\r\nbody'))
  t.equal(block?.fields.get('content-type'), 'text/plain; charset=x')
  t.equal(block?.fields.get('a'), 'b')
  t.equal(block?.bodyStart, 47)
  t.equal(parseHeaderBlock(Buffer.from('UNB no header\r\n\r\n')), null)
  t.equal(parseHeaderBlock(Buffer.from(' folded first\r\n\r\n')), null)
  t.equal(parseHeaderBlock(Buffer.from(`a: ${'x'.repeat(70_000)}\r\n\r\n`)), null, 'larger than 64 KiB')
  t.equal(parseHeaderBlock(Buffer.from(`${'a: b\r\n'.repeat(300)}\r\n`)), null, 'more than 256 fields')
  t.equal(new HeaderFields([['X', 'a\r\n b']]).get('x'), 'a b')
  t.end()
})

t.test('A MIC is read in every spelling, folded too', (t) => {
  const mic = micOf('SHA512', Buffer.from('x'))
  t.equal(
    formatMic(micOf('SHA256', Buffer.from('x'))),
    'LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE=, sha-256',
  )
  const folded = `${mic.value.slice(0, 40)}\r\n\t${mic.value.slice(40)} ,SHA2-512`
  t.same(parseMic(folded), mic)
  const sha1 = micOf('SHA1', Buffer.from('x'))
  for (const name of ['sha1', 'sha-1', 'SHA', 'rsa-sha1', 'SHA1 '])
    t.same(parseMic(`${sha1.value},${name}`), sha1)
  const sha256 = micOf('SHA256', Buffer.from('x'))
  for (const name of ['sha256', 'SHA-256', 'sha2_256', 'sha2-256']) {
    t.same(parseMic(`${sha256.value}, ${name}`), sha256)
  }
  for (const name of ['SHA1withRSA', 'sha1WithRSAEncryption', 'sha1 (x)', 'sha1;', '(a (b) \\) c)sha1'])
    t.same(parseMic(`${sha1.value}, ${name}`), sha1, name)
  t.same(parseMic(`(the MIC, as asked for) ${sha256.value}, SHA256withECDSA`), sha256)
  t.equal(parseMic(`${sha1.value}, sha1 (x`), null, 'no comment, since it has no end')
  t.same(parseMic(sha256.value), sha256, 'without an algorithm')
  t.same(parseMic(`${micOf('MD5', Buffer.from('x')).value}, rsa-md5`)?.algorithm, 'MD5')
  t.equal(parseMic(`${sha1.value}, sha256`), null, 'a value of another length')
  t.equal(parseMic('none'), null)
  t.ok(micEquals(sha1, { ...sha1, value: sha1.value.replace('=', '') }))
  t.notOk(micEquals(sha1, { ...sha1, algorithm: 'SHA256' }))
  t.notOk(micEquals({ algorithm: 'SHA1', value: '' }, { algorithm: 'SHA1', value: '' }))
  t.end()
})

t.test('Dispositions are read as they are seen in the wild', (t) => {
  const error = (text: string): unknown => ({ type: 'processed', modifier: { kind: 'error', text } })
  const mode = 'automatic-action/MDN-sent-automatically'
  t.same(parseDisposition(`${mode}; processed`), { type: 'processed', modifier: null })
  t.same(parseDisposition(`${mode};processed/error: decryption-failed`), error('decryption-failed'))
  t.same(parseDisposition(`${mode} ; Processed / Error:x`), error('x'))
  t.same(parseDisposition('processed/Error: x'), error('x'), 'without a mode')
  t.same(parseDisposition(`${mode}; processed/superseded`), error('superseded'))
  t.same(parseDisposition(`${mode} (by a; b); processed (all fine)`), PROCESSED)
  t.same(parseDisposition(`${mode}; processed;`), PROCESSED)
  t.same(parseDisposition('processed ;'), PROCESSED)
  t.same(parseDisposition(`${mode}; processed (see) /error: x (y)`), error('x'))
  t.equal(parseDisposition(`${mode}; processed (all fine`), null, 'no comment, since it has no end')
  t.same(parseDisposition(`${mode}; processed/error: x :)`), error('x :)'))
  t.same(parseDisposition(`${mode}; processed${' '.repeat(2_000)}/error: x`), error('x'), 'however far away')
  t.equal(parseDisposition(`${mode}; processed; failed`), null)
  t.equal(parseDisposition(`${mode}; displayed`), null)
  t.equal(parseDisposition(''), null)
  const positive = (field: string): boolean | null => {
    const disposition = parseDisposition(field)
    return disposition === null ? null : isPositive(disposition)
  }
  t.equal(positive(`${mode}; processed/warning: duplicate-document`), true)
  t.equal(positive(`${mode}; processed/error`), false)
  t.equal(positive(`${mode}; failed`), false)
  t.equal(positive(`${mode}; failed/Failure: unsupported format`), false)
  for (const modifier of Object.keys(REFUSALS) as (keyof typeof REFUSALS)[]) {
    const disposition = dispositionOf(modifier)
    t.same(parseDisposition(formatDisposition(disposition)), disposition)
    t.notOk(isPositive(disposition))
  }
  t.end()
})
