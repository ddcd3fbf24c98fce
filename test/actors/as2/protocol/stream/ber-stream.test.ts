import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { element, octetString, sequence, toBuffer } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { BerStream } from '../../../../../actors/as2/protocol/stream/ber-stream.ts'
import { ByteSource } from '../../../../../actors/as2/protocol/stream/byte-source.ts'
import { chunksOf } from './both-readers.ts'

const reading = (bytes: Buffer, ...chunking: number[]): BerStream =>
  new BerStream(new ByteSource(chunksOf(bytes, chunking.length === 0 ? [1] : chunking)))

const indefinite = (tag: number, ...inner: readonly Buffer[]): Buffer =>
  Buffer.concat([Buffer.from([tag, 0x80]), ...inner, Buffer.from([0, 0])])

const small = (text: string): Buffer => toBuffer(octetString(Buffer.from(text)))

async function octetsOf(bytes: Buffer, ...chunking: number[]): Promise<string> {
  const ber = reading(bytes, ...chunking)
  await ber.open()
  const octets = await buffer(ber.octets())
  await ber.drain()
  return octets.toString()
}

t.test('An octet string comes whole, in pieces and in pieces of pieces, byte by byte', async (t) => {
  const pieces = [small('con'), indefinite(0x24, small('te'), small('')), small('nt')]
  for (const bytes of [
    small('content'),
    indefinite(0x24, ...pieces),
    toBuffer(element(0x24, ...pieces)),
    indefinite(0xa0, ...pieces),
  ]) {
    t.equal(await octetsOf(bytes), 'content')
    t.equal(await octetsOf(Buffer.concat([bytes, Buffer.from('\nbehind')]), 3, 1_000), 'content')
  }
})

t.test('A hundred thousand small pieces are read, and pieces of another kind are not', async (t) => {
  const many = indefinite(0x24, Buffer.alloc(12 * 100_000, small('ten octets')))
  t.equal((await octetsOf(many, 65_536)).length, 1_000_000)
  const another = indefinite(0x24, small('x'), toBuffer(sequence()))
  await t.rejects(octetsOf(another), { message: 'octet string expected' })
})

t.test('Pieces of one octet are read, and some hundred thousand of nothing are not', async (t) => {
  const ones = indefinite(0x24, Buffer.alloc(3 * 300_000, small('x')))
  t.equal(await octetsOf(ones, 65_536), 'x'.repeat(300_000))
  for (const piece of [small(''), indefinite(0x24)]) {
    const many = indefinite(0x24, Buffer.alloc(piece.length * 300_000, piece))
    await t.rejects(octetsOf(many, 65_536), { name: 'Asn1Error', message: 'too many elements' })
  }
})

t.test('Nesting is bounded', async (t) => {
  let bytes = small('x')
  for (let depth = 0; depth < 31; depth++) bytes = indefinite(0x24, bytes)
  t.equal(await octetsOf(bytes), 'x')
  for (const deeper of [
    indefinite(0x24, indefinite(0x24, bytes)),
    Buffer.alloc(100_000, Buffer.from([0x24, 0x80])),
  ])
    await t.rejects(octetsOf(deeper), { name: 'Asn1Error', message: 'nested too deeply' })
})

t.test('A structure that is held in memory is bounded, whatever form its length has', async (t) => {
  const large = Buffer.alloc(2_000_000)
  for (const bytes of [toBuffer(octetString(large)), indefinite(0x30, toBuffer(octetString(large)))])
    await t.rejects(reading(bytes, 10_000).element(), {
      name: 'Asn1Error',
      message: 'a structure is too large',
    })
  const claim = Buffer.from([0x30, 0x86, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
  await t.rejects(reading(claim).element(), { name: 'Asn1Error' })
})

t.test(
  'What is broken around a failure comes before it, and what the source broke off with before all',
  async (t) => {
    const ber = reading(indefinite(0x30, small('a'), Buffer.from([0x1f, 0x00])))
    await ber.open()
    ber.children()
    await t.rejects(ber.open(0x02), { message: 'element 0x2 expected, 0x4 found' })
    await t.rejects(ber.drain(), { message: 'tag number out of range' })

    const gone = new Error('gone')
    const broken = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from([0x30, 0x80, 0x04])
      throw gone
    }
    const cut = new BerStream(new ByteSource(broken()))
    t.equal(await cut.open().catch((thrown: unknown) => thrown), gone)
    t.equal(await cut.drain().catch((thrown: unknown) => thrown), gone)
  },
)
