import fc from 'fast-check'
import t from 'tap'
import { MimeError } from '../../../runtime/mime/mime-error.ts'
import { boundaryOf, MultipartScanner } from '../../../runtime/mime/multipart-scanner.ts'
import { decoderFor } from '../../../runtime/mime/transfer-decoding.ts'
import { inChunks } from './chunks.ts'

/** The parts as text, or why there are none. */
function scanned(chunks: readonly Buffer[], maxParts = 5): string[] | string {
  const parts: string[] = []
  let part = ''
  const visitor = {
    begin: () => (part = ''),
    bytes: (bytes: Buffer) => (part += bytes.toString('latin1')),
    end: () => parts.push(part),
  }
  const scanner = new MultipartScanner({ boundary: 'b', maxParts, visitor })
  try {
    for (const chunk of chunks) scanner.write(chunk)
    scanner.end()
    return parts
  } catch (error) {
    if (error instanceof MimeError) return error.message
    throw error
  }
}

/** The rules of RFC 2046 §5.1.1 over the whole body: lines that are delimiters, each with the line break before it. */
function expected(body: string, maxParts = 5): string[] | string {
  const parts: string[] = []
  let start = -1
  for (const match of body.matchAll(/(^|\r?\n)(?=--b(--|[ \t]*\r?\n))/g)) {
    const [lineBreak, , ending = ''] = match
    // A line break that ended the delimiter before is not part of this one.
    if (start >= 0) parts.push(body.slice(start, Math.max(start, match.index)))
    if (ending === '--') return parts
    if (parts.length >= maxParts) return 'too many parts'
    start = match.index + lineBreak.length + '--b'.length + ending.length
  }
  return 'no closing delimiter'
}

const TOKENS = [
  '--b',
  '--b--',
  '\r\n',
  '\n',
  '\r',
  '-',
  'b',
  ' ',
  '\t',
  'x',
  '--bc',
  '\r\n--b\r\n',
  '\n--b\n',
]

t.test('parts are cut in the same way however the body is chunked', (t) => {
  const bodies = fc.array(fc.constantFrom(...TOKENS), { maxLength: 30 }).map((tokens) => tokens.join(''))
  fc.assert(
    fc.property(bodies, fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }), (body, sizes) => {
      const bytes = Buffer.from(body, 'latin1')
      const found = scanned([bytes])
      t.same(found, expected(body), JSON.stringify(body))
      t.same(scanned(inChunks(bytes, sizes)), found, JSON.stringify(body))
    }),
    { numRuns: 2_000 },
  )
  t.end()
})

t.test('no more is held back than a line that may be a delimiter', (t) => {
  let handed = 0
  const visitor = {
    begin: () => undefined,
    bytes: ({ length }: Buffer) => (handed += length),
    end: () => undefined,
  }
  const scanner = new MultipartScanner({ boundary: 'b', maxParts: 1, visitor })
  scanner.write(Buffer.from('--b\r\n'))
  const filler = Buffer.alloc(100_000, 'content\r\n')
  for (let round = 1; round <= 10; round += 1) {
    scanner.write(filler)
    t.ok(handed > round * filler.length - 10, `${handed}`)
  }
  scanner.write(Buffer.concat([Buffer.from('\r\n--b'), Buffer.alloc(100_000, ' ')]))
  t.ok(handed > 11 * filler.length - 10, 'endless white space behind a boundary is content')
  t.end()
})

t.test('a content type without a boundary, or with an absurd one, is refused', (t) => {
  for (const type of [
    'multipart/related',
    'multipart/related; boundary=""',
    `multipart/related; boundary=${'x'.repeat(201)}`,
  ])
    t.throws(() => boundaryOf(type), new MimeError('no boundary'))
  t.equal(boundaryOf('Multipart/Related; BOUNDARY="=_a b"; type="text/xml"'), '=_a b')
  t.end()
})

t.test('an encoded body is decoded in the same way however it is chunked', (t) => {
  const texts = fc.array(
    fc.constantFrom('=', '=\r\n', '=\n', '=41', '=4', 'Q', 'UE', '+/', '\r\n', ' ', '-_', '*'),
    {
      maxLength: 30,
    },
  )
  fc.assert(
    fc.property(
      texts,
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 }),
      fc.constantFrom('base64', 'quoted-printable', 'Binary', '7bit', 'x-uuencode', null),
      (tokens, sizes, encoding) => {
        const bytes = Buffer.from(tokens.join(''), 'latin1')
        const decode = (chunks: readonly Buffer[]): string => {
          const decoder = decoderFor(encoding)
          return Buffer.concat([...chunks.map((chunk) => decoder.write(chunk)), decoder.end()]).toString(
            'latin1',
          )
        }
        const whole = decode([bytes])
        t.equal(decode(inChunks(bytes, sizes)), whole)
        if (encoding === 'x-uuencode') t.equal(whole, tokens.join(''), 'what nobody knows stays as it is')
        if (encoding === 'base64') t.equal(whole, Buffer.from(tokens.join(''), 'base64').toString('latin1'))
      },
    ),
    { numRuns: 2_000 },
  )
  t.end()
})
