import fc from 'fast-check'
import t from 'tap'
import { octetString } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import type { Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import { composeReceipt, readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { Refusal } from '../../../../actors/as2/protocol/refusal.ts'
import { hostileEnvelope } from '../../../support/hostile-envelope.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { compressedData, encryptedKey, envelopedData, OID, recipientInfo } from './crafted-cms.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })
const stranger = makeCertificate({ commonName: 'Stranger' })

/** Far more than any message needs; what grows with the square of its size takes minutes. */
const MAX_CPU_MS = 5_000

/** How long this process has computed: unlike the time of day, other processes do not make it longer. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

const signature = { algorithm: 'SHA256', scheme: 'PKCS1', ...sender } as const
const encryption = {
  algorithm: 'AES256-CBC',
  keyTransport: 'PKCS1',
  certificate: receiver.certificate,
} as const

const MESSAGE: Outgoing = {
  as2From: 'sender',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: null,
  date: new Date('2026-11-21T08:00:00Z'),
  fileName: 'a.edi',
  contentType: 'application/edifact',
  content: Buffer.from("UNB+UNOA:1'\r\nUNZ+0+1'\r\n".repeat(20)),
  compression: 'BeforeSigning',
  signature,
  encryption,
  receipt: null,
  product: 'Waybill/0.1.0',
}

const PARTIES: HeaderList = [
  ['AS2-From', 'sender'],
  ['AS2-To', 'receiver'],
]

function read(headers: HeaderList, body: Buffer, required = false): Promise<Incoming> {
  return readMessage({
    headers,
    body,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
    require: { signed: required, encrypted: required },
  })
}

const readCms = (body: Buffer): Promise<Incoming> =>
  read([...PARTIES, ['Content-Type', 'application/pkcs7-mime']], body)

async function refusalOf(work: Promise<unknown>): Promise<Refusal> {
  try {
    await work
  } catch (thrown) {
    if (thrown instanceof Refusal) return thrown
    throw thrown
  }
  throw new Error('was not refused')
}

t.test('Altered and cut messages are refused or read, quickly, and never anything else', async () => {
  const plain = { ...MESSAGE, encryption: null }
  const originals = await Promise.all([
    composeMessage(MESSAGE),
    composeMessage(plain),
    composeMessage({ ...plain, compression: 'AfterSigning' }),
    composeMessage({ ...MESSAGE, signature: null }),
    composeMessage({ ...MESSAGE, encryption: { ...encryption, algorithm: 'AES128-GCM' } }),
  ])
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    octet: fc.oneof(fc.constantFrom(0, 0x24, 0x30, 0x80, 0xff), fc.nat({ max: 255 })),
    kind: fc.constantFrom('set', 'set', 'cut', 'insert', 'double'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...originals),
      fc.array(change, { minLength: 1, maxLength: 4 }),
      async ({ headers, body }, changes) => {
        const before = cpuMs()
        const altered = changes.reduce(alter, Buffer.from(body))
        try {
          await read(headers, altered)
        } catch (thrown) {
          if (!(thrown instanceof Refusal)) throw thrown
        }
        return cpuMs() - before < MAX_CPU_MS
      },
    ),
    { numRuns: 1_500 },
  )
})

function alter(body: Buffer, { at, octet, kind }: { at: number; octet: number; kind: string }): Buffer {
  const position = Math.floor(at * body.length)
  const before = body.subarray(0, position)
  if (kind === 'cut') return Buffer.from(before)
  const after = body.subarray(position + (kind === 'set' ? 1 : 0))
  if (kind === 'double') return Buffer.concat([before, after, after])
  return Buffer.concat([before, Buffer.from([octet]), after])
}

t.test('A signed message that was altered never arrives altered', async () => {
  const { headers, body } = await composeMessage({ ...MESSAGE, encryption: null, compression: 'None' })
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: body.length - 1 }), fc.integer({ min: 1, max: 255 }), async (at, mask) => {
      const altered = Buffer.from(body)
      altered[at] = (altered[at] ?? 0) ^ mask
      try {
        const incoming = await read(headers, altered, false)
        return !incoming.signed || incoming.content.equals(MESSAGE.content)
      } catch (thrown) {
        return thrown instanceof Refusal
      }
    }),
    { numRuns: 500 },
  )
})

t.test('Any header values and any bytes are refused or read', async () => {
  const types = fc.constantFrom(
    'application/pkcs7-mime',
    'multipart/signed; boundary=b',
    'multipart/signed; boundary="',
    'multipart/report; boundary=b',
    'text/plain',
    '',
  )
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    fc
      .array(
        fc.constantFrom(
          '--b',
          '--b--',
          '\r\n',
          '\n',
          'Content-Type: application/pkcs7-mime',
          ':',
          ' ',
          '0\u0080',
        ),
      )
      .map((pieces) => Buffer.from(pieces.join(''), 'latin1')),
  )
  await fc.assert(
    fc.asyncProperty(types, fc.string({ maxLength: 40 }), body, async (type, value, bytes) => {
      const headers: HeaderList = [
        ...PARTIES,
        ['Content-Type', type],
        ['Content-Disposition', value],
        ['Subject', value],
        ['Disposition-Notification-To', value],
        ['Disposition-Notification-Options', value],
      ]
      for (const reading of [read(headers, bytes), readReceipt({ headers, body: bytes, signers: [] })]) {
        try {
          await reading
        } catch (thrown) {
          if (!(thrown instanceof Refusal)) throw thrown
        }
      }
    }),
    { numRuns: 1_000 },
  )
})

t.test('Altered receipts are refused, or say what they said', async () => {
  const { headers, body } = await composeReceipt({
    as2From: 'receiver',
    as2To: 'sender',
    messageId: null,
    date: new Date(),
    originalMessageId: '<1@sender>',
    disposition: { type: 'processed', modifier: { kind: 'error', text: 'decryption-failed' } },
    mic: null,
    text: 'No.',
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...sender },
    product: 'Waybill/0.1.0',
  })
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: body.length - 1 }), fc.nat({ max: 255 }), async (at, octet) => {
      const altered = Buffer.from(body)
      altered[at] = octet
      try {
        const receipt = await readReceipt({ headers, body: altered, signers: [sender.certificate] })
        return receipt.signed && receipt.disposition.modifier?.text === 'decryption-failed'
      } catch (thrown) {
        return thrown instanceof Refusal
      }
    }),
    { numRuns: 500 },
  )
})

t.test('Whatever fails inside an encrypted message is told alike', async (t) => {
  const { headers } = await composeMessage(MESSAGE)
  const open = await composeMessage({ ...MESSAGE, encryption: null })
  const type = open.headers.find(([name]) => name === 'Content-Type')?.[1] ?? ''
  const entity = Buffer.concat([Buffer.from(`Content-Type: ${type}\r\n\r\n`), open.body])
  // A ciphertext whose last bytes are altered has a right padding by chance, now and then.
  const badPadding = hostileEnvelope(entity, receiver.certificate, 'bad_padding')
  const { headers: toStranger, body: strangersBody } = await composeMessage({
    ...MESSAGE,
    encryption: { ...encryption, certificate: stranger.certificate },
  })
  const named = { ...stranger, certificate: sender.certificate }
  const badSignature = await composeMessage({ ...MESSAGE, signature: { ...signature, ...named } })
  const unsigned = await composeMessage({ ...MESSAGE, content: Buffer.from([0]), signature: null })
  const wrongKey = envelope(Buffer.alloc(256, 7))
  const noKey = envelope(Buffer.alloc(3))
  const shortKey = envelope(encryptedKey(receiver, Buffer.alloc(16)))
  const refusals = await Promise.all([
    refusalOf(read(headers, badPadding, true)),
    refusalOf(read(toStranger, strangersBody, true)),
    refusalOf(read(badSignature.headers, badSignature.body, true)),
    refusalOf(read(unsigned.headers, unsigned.body, true)),
    refusalOf(read(headers, wrongKey, true)),
    refusalOf(read(headers, noKey, true)),
    refusalOf(read(headers, shortKey, true)),
  ])
  for (const { modifier, message, mic } of refusals) {
    t.same(
      { modifier, message, mic },
      {
        modifier: 'decryption-failed',
        message: 'The message could not be decrypted.',
        mic: null,
      },
    )
  }
  t.equal(refusals[0]?.reason, refusals[4]?.reason, 'not even the operator is told padding from key')
  t.equal(refusals[4]?.reason, refusals[5]?.reason)
  t.equal(refusals[4]?.reason, refusals[6]?.reason)
  t.match(refusals[2]?.reason, 'signature', 'but a wrong key is')
})

/** EnvelopedData for the receiver with the given bytes in place of the encrypted key. */
function envelope(keyBytes: Buffer): Buffer {
  const ciphertext = Buffer.alloc(64)
  const parameters = octetString(Buffer.alloc(16))
  return envelopedData(recipientInfo(receiver, keyBytes), { oid: OID.aes256Cbc, parameters, ciphertext })
}

t.test('Outside of encryption the receipt says what was wrong', async (t) => {
  const clear = { ...MESSAGE, encryption: null }
  const foreign = await composeMessage({ ...clear, signature: { ...signature, ...stranger } })
  t.match(await refusalOf(read(foreign.headers, foreign.body)), {
    modifier: 'authentication-failed',
    mic: foreign.mic,
  })
  const signed = await composeMessage({ ...clear, compression: 'None' })
  const altered = Buffer.from(signed.body.toString('latin1').replace('UNZ', 'UNX'), 'latin1')
  const refusal = await refusalOf(read(signed.headers, altered))
  t.equal(refusal.modifier, 'integrity-check-failed')
  t.ok(refusal.mic)
  t.not(refusal.mic?.value, signed.mic.value)
  t.match(await refusalOf(read(signed.headers, signed.body, true)), {
    modifier: 'insufficient-message-security',
    mic: signed.mic,
  })
  const plain = await composeMessage({ ...clear, signature: null, compression: 'None' })
  t.match(await refusalOf(read(plain.headers, plain.body, true)), {
    modifier: 'insufficient-message-security',
  })
})

t.test('The certificate inside a message does not make it genuine', async (t) => {
  const forged = await composeMessage({
    ...MESSAGE,
    encryption: null,
    signature: { ...signature, ...stranger },
  })
  const reading = readMessage({
    headers: forged.headers,
    body: forged.body,
    decryption: [],
    signers: [],
    maxContentBytes: 1_000_000,
  })
  t.equal((await refusalOf(reading)).modifier, 'authentication-failed')
})

t.test('What expands beyond the limit is refused', async (t) => {
  const bomb = compressedData(Buffer.alloc(200_000_000))
  const refusal = await refusalOf(readCms(bomb))
  t.equal(refusal.modifier, 'decompression-failed')
  t.match(refusal.reason, 'expands')
})

t.test('Layers beyond what AS2 has are refused', async (t) => {
  const wrap = (bytes: Buffer): Buffer =>
    Buffer.concat([Buffer.from('Content-Type: application/pkcs7-mime\r\n\r\n'), compressedData(bytes)])
  const twice = compressedData(wrap(Buffer.from('x')))
  t.equal((await refusalOf(readCms(twice))).modifier, 'unexpected-processing-error')
  const { body } = await composeMessage(MESSAGE)
  const sealedInside = compressedData(
    Buffer.concat([Buffer.from('Content-Type: application/pkcs7-mime\r\n\r\n'), body]),
  )
  t.equal((await refusalOf(readCms(sealedInside))).modifier, 'unexpected-processing-error')
})

t.test('Huge lengths and deep nesting end at once', async (t) => {
  const before = cpuMs()
  for (const body of [
    Buffer.from('3084ffffffff', 'hex'),
    Buffer.alloc(1_000_000, Buffer.from('3080', 'hex')),
    Buffer.alloc(1_000_000, Buffer.from('2480', 'hex')),
    Buffer.concat([Buffer.from('3080', 'hex'), Buffer.alloc(10_000_000, Buffer.from('0500', 'hex'))]),
  ]) {
    t.equal((await refusalOf(readCms(body))).modifier, 'unexpected-processing-error')
  }
  const folded = Buffer.concat([
    Buffer.from('--b\r\n'),
    Buffer.alloc(5_000_000, ' \t'),
    Buffer.from('\r\n--b--'),
  ])
  await refusalOf(read([...PARTIES, ['Content-Type', 'multipart/signed; boundary=b']], folded))
  await refusalOf(
    read([...PARTIES, ['Content-Type', 'multipart/signed; boundary=b']], Buffer.alloc(5_000_000, '--b\r\n')),
  )
  t.ok(cpuMs() - before < 5 * MAX_CPU_MS)
})
