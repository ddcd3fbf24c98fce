import fc from 'fast-check'
import t from 'tap'
import { Asn1Error } from '../../../../../actors/as2/protocol/asn1/asn1-error.ts'
import { oidFromBytes, oidToBytes } from '../../../../../actors/as2/protocol/asn1/oid.ts'
import { BerReader } from '../../../../../actors/as2/protocol/asn1/reader.ts'
import { TAG } from '../../../../../actors/as2/protocol/asn1/tag.ts'
import {
  integer,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  time,
  toBuffer,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')

t.test('What the writer makes, the reader reads', (t) => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 70_000 }),
      fc.nat({ max: 0x7fffffff }),
      fc.array(fc.uint8Array({ maxLength: 8 })),
      (octets, number, items) => {
        const encoded = toBuffer(
          sequence(
            integer(number),
            octetString(Buffer.from(octets)),
            setOf(...items.map((item) => octetString(Buffer.from(item)))),
          ),
        )
        const element = new BerReader(encoded).next(TAG.SEQUENCE)
        const fields = element.children()
        const read = fields.next(TAG.INTEGER).smallInteger()
        const bytes = fields.next(TAG.OCTET_STRING).octets()
        const set = [...fields.next(TAG.SET).children()].map((each) => each.raw)
        const sorted = set.every((each, at) => at === 0 || (set[at - 1]?.compare(each) ?? 0) <= 0)
        return (
          read === number &&
          bytes.equals(Buffer.from(octets)) &&
          set.length === items.length &&
          sorted &&
          fields.atEnd &&
          element.end === encoded.length
        )
      },
    ),
  )
  t.end()
})

t.test('Object identifiers keep their dotted form', (t) => {
  for (const oid of [
    '1.2.840.113549.1.7.2',
    '2.16.840.1.101.3.4.1.42',
    '0.9.2342.19200300.100.1.25',
    '2.999.1',
  ]) {
    t.equal(oidFromBytes(oidToBytes(oid)), oid)
    t.equal(new BerReader(objectIdentifier(oid)).next().oid(), oid)
  }
  t.throws(() => oidFromBytes(hex('2a 86')), Asn1Error, 'an unfinished arc')
  t.throws(() => oidFromBytes(Buffer.alloc(0)), Asn1Error)
  t.throws(() => oidFromBytes(hex('2aff ffff ffff ffff ff7f')), Asn1Error, 'an arc out of range')
  t.end()
})

t.test('Times are UTCTime until 2049 and GeneralizedTime from 2050', (t) => {
  const of = (text: string): string => toBuffer(time(new Date(text))).toString('latin1', 2)
  t.equal(of('2049-12-31T23:59:59.999Z'), '491231235959Z')
  t.equal(of('2050-01-01T00:00:00Z'), '20500101000000Z')
  t.end()
})

t.test('Indefinite lengths and constructed octet strings are read as BER allows', (t) => {
  // SEQUENCE { OCTET STRING { "ab", { "c" }, "d" }, INTEGER 5 } and two bytes that follow
  const ber = hex('3080 2480 04026162 24800401630000 0401640000 020105 0000 0d0a')
  const element = new BerReader(ber).next(TAG.SEQUENCE)
  t.equal(element.end, ber.length - 2)
  const fields = element.children()
  const text = fields.next()
  t.equal(text.octets().toString(), 'abcd')
  t.same(text.octetChunks(), [Buffer.from('abcd')], 'small pieces are put together')
  t.equal(fields.next().smallInteger(), 5)
  t.ok(fields.atEnd)
  t.end()
})

t.test('Malformed elements are an Asn1Error', (t) => {
  const cases: Record<string, string> = {
    empty: '',
    'no length': '30',
    'contents cut off': '3003 0201',
    'a length beyond the bytes': '3084 ffffffff 00',
    'a length of seven octets': '3087 00000000000001 00',
    'primitive with an indefinite length': '0480 0000',
    'no end of contents': '3080 020105',
    'end of contents with contents': '3080 000100',
    'a tag number above 30': '1f8101 00',
  }
  for (const [name, bytes] of Object.entries(cases)) {
    t.throws(() => new BerReader(hex(bytes)).next(), Asn1Error, name)
  }
  t.throws(
    () => new BerReader(hex('3003 020500')).next().children().next(),
    Asn1Error,
    'a child beyond its parent',
  )
  t.throws(() => new BerReader(hex('020105')).next(TAG.SEQUENCE), Asn1Error, 'another tag')
  t.throws(() => new BerReader(hex('2403 020105')).next().octets(), Asn1Error, 'no octet string inside')
  t.throws(() => new BerReader(hex('0500')).next().oid(), Asn1Error)
  t.throws(() => new BerReader(hex('0500')).next().smallInteger(), Asn1Error)
  t.throws(() => new BerReader(hex('0500')).next().children(), Asn1Error)
  t.end()
})

t.test('Depth is bounded, with definite and with indefinite lengths', (t) => {
  t.throws(() => new BerReader(Buffer.alloc(1_000_000, hex('2480'))).next(), { message: 'nested too deeply' })
  let nested: Buffer = toBuffer(octetString(Buffer.from('x')))
  for (let level = 0; level < 200; level++) nested = Buffer.concat([lengthOf(0x24, nested), nested])
  t.throws(() => new BerReader(nested).next().octets(), { message: 'nested too deeply' })
  t.end()
})

t.test('The number of empty elements is bounded, wherever they are', (t) => {
  const empty = Buffer.alloc(12_000_000, hex('0400'))
  const indefinite = Buffer.concat([hex('2480'), empty, hex('0000')])
  t.throws(() => new BerReader(indefinite).next(), { message: 'too many elements' })
  const nested = Buffer.concat([hex('2480'), Buffer.alloc(12_000_000, hex('24800000')), hex('0000')])
  t.throws(() => new BerReader(nested).next(), { message: 'too many elements' })
  const definite = new BerReader(Buffer.concat([hex('2483b71b00'), empty])).next()
  t.throws(() => definite.octets(), { message: 'too many elements' })
  const zeros = new BerReader(Buffer.concat([hex('3083b71b00'), Buffer.alloc(12_000_000)])).next()
  t.throws(() => [...zeros.children()], { message: 'too many elements' })
  t.end()
})

t.test('Octets in a million pieces of one each are read, however many indefinite lengths are around', (t) => {
  let bytes = Buffer.alloc(3_000_000, hex('04012e'))
  for (let level = 0; level < 20; level++) bytes = Buffer.concat([hex('2480'), bytes, hex('0000')])
  const element = new BerReader(bytes).next()
  t.equal(element.end, bytes.length)
  t.ok(element.octets().equals(Buffer.alloc(1_000_000, '.')))
  t.ok(element.octetChunks().length < 1_000, 'they are put together')
  t.end()
})

t.test('Few empty elements stay few, however often they are read', (t) => {
  const element = new BerReader(
    Buffer.concat([hex('2480'), Buffer.alloc(20_000, hex('0400')), hex('0000')]),
  ).next()
  for (let turn = 0; turn < 10; turn++) t.equal(element.octets().length, 0)
  t.end()
})

t.test('Any bytes end in an element or in an Asn1Error', (t) => {
  const walk = (reader: BerReader): void => {
    for (const element of reader) {
      if ((element.tag & 0x20) !== 0) walk(element.children())
      else element.octets()
    }
  }
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(0, 1, 2, 4, 6, 0x24, 0x30, 0x31, 0x7f, 0x80, 0x81, 0x82, 0xa0, 0xff), {
        maxLength: 60,
      }),
      (octets) => {
        try {
          walk(new BerReader(Buffer.from(octets)))
        } catch (thrown) {
          if (!(thrown instanceof Asn1Error)) throw thrown
        }
      },
    ),
    { numRuns: 5_000 },
  )
  t.end()
})

function lengthOf(tag: number, contents: Buffer): Buffer {
  return contents.length < 0x80
    ? Buffer.from([tag, contents.length])
    : Buffer.from([tag, 0x82, contents.length >> 8, contents.length & 0xff])
}
