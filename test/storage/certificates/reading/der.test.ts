import fc from 'fast-check'
import t from 'tap'
import {
  element,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  toBuffer,
} from '../../../../actors/as2/protocol/asn1/writer.ts'
import {
  childrenOf,
  DerError,
  integerOf,
  objectIdentifierOf,
  octetsOf,
  readDer,
} from '../../../../storage/certificates/reading/der.ts'

t.test('what a writer of DER wrote is read back', async () => {
  const octets = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes))
  fc.assert(
    fc.property(fc.array(octets, { maxLength: 20 }), (list) => {
      const read = childrenOf(readDer(toBuffer(sequence(...list.map((bytes) => octetString(bytes))))))
      return (
        read.length === list.length &&
        read.every((child, at) => octetsOf(child).equals(list[at] ?? Buffer.alloc(0)))
      )
    }),
  )
  fc.assert(fc.property(fc.nat(), (value) => integerOf(readDer(toBuffer(integer(value)))) === value))
  const arcs = fc.tuple(fc.nat({ max: 2 }), fc.nat({ max: 39 }), fc.array(fc.nat(), { maxLength: 8 }))
  fc.assert(
    fc.property(arcs, ([first, second, rest]) => {
      const oid = [first, second, ...rest].join('.')
      return objectIdentifierOf(readDer(toBuffer(objectIdentifier(oid)))) === oid
    }),
  )
})

t.test('indefinite lengths and octet strings in pieces are read', async (t) => {
  const piece = (text: string): Buffer => toBuffer(octetString(Buffer.from(text)))
  const pieces = Buffer.concat([Buffer.from([0x24, 0x80]), piece('ab'), piece('c'), Buffer.from([0, 0])])
  const nested = Buffer.concat([Buffer.from([0x30, 0x80]), pieces, piece('d'), Buffer.from([0, 0])])
  const [first, second] = childrenOf(readDer(nested))
  if (first === undefined || second === undefined) throw new Error('two elements were written')
  t.equal(octetsOf(first).toString(), 'abc')
  t.equal(octetsOf(second).toString(), 'd')
})

t.test('what is cut off, nested without end or has no sense is a DerError', async (t) => {
  const sound = toBuffer(sequence(octetString(Buffer.alloc(300)), integer(5)))
  for (let length = 0; length < sound.length; length += 1) {
    t.throws(() => readDer(sound.subarray(0, length)), DerError)
  }
  t.throws(() => readDer(Buffer.alloc(100_000, Buffer.from([0x30, 0x80]))), DerError)
  t.throws(() => readDer(Buffer.from([0x04, 0x80, 0, 0])), DerError, 'a primitive one without length')
  t.throws(() => readDer(Buffer.from([0x1f, 0x81, 0x01, 0])), DerError, 'a large tag number')
  t.throws(() => readDer(Buffer.from([0x30, 0x85, 1, 1, 1, 1, 1])), DerError, 'a huge length')
  t.throws(() => integerOf(readDer(Buffer.from([0x02, 0x01, 0xff]))), DerError, 'a negative number')
  const many = toBuffer(element(0x30, Buffer.alloc(2 * 10_001, Buffer.from([0x05, 0x00]))))
  t.throws(() => childrenOf(readDer(many)), DerError, 'too many elements')
})
