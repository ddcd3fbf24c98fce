import fc from 'fast-check'
import t from 'tap'
import { PROCESSED } from '../../../../actors/as2/protocol/disposition.ts'
import { formatEnvelopedData } from '../../../../actors/as2/protocol/cms/enveloped-data.ts'
import { micEquals, micOf } from '../../../../actors/as2/protocol/mic.ts'
import { formatEntity } from '../../../../actors/as2/protocol/mime.ts'
import { formatMultipartSigned } from '../../../../actors/as2/protocol/multipart-signed.ts'
import { composeReceipt, readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { encodingOf } from '../../../../runtime/mime/transfer-decoding.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { compressedData } from './crafted-cms.ts'
import { quotedPrintable } from './stream/made-messages.ts'
import { assertSame } from './stream/both-readers.ts'

/** Transfer encodings as partners declare them, in memory and as a stream (RFC 2045 §6). */

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })
const SIGNING = { algorithm: 'SHA256', scheme: 'PKCS1', ...sender } as const
const SIGNED_AT = new Date('2026-11-21T08:00:00Z')

function read(headers: HeaderList, body: Buffer) {
  return assertSame(
    {
      headers: [['AS2-From', 'a'], ['AS2-To', 'b'], ...headers],
      body,
      decryption: [receiver],
      signers: [sender.certificate],
      maxContentBytes: 1_000_000,
    },
    [50],
  )
}

/** How the CMS octets of a part or message travel. */
const TRAVELS: Readonly<Record<string, (cms: Buffer) => readonly [declared: string | null, body: Buffer]>> = {
  base64: (cms) => ['base64', inLines(cms)],
  'base64 in capitals, with a comment': (cms) => ['BASE64 (RFC 2045)', inLines(cms)],
  'base64 that nobody declares': (cms) => [null, inLines(cms)],
  'base64 that is called quoted-printable': (cms) => ['quoted-printable', inLines(cms)],
  'base64 that is called something': (cms) => ['x-something', inLines(cms)],
  binary: (cms) => ['binary', cms],
  'binary that is called quoted-printable': (cms) => ['quoted-printable', cms],
  'quoted-printable': (cms) => ['quoted-printable', quotedPrintable(cms)],
  'quoted-printable with a semicolon': (cms) => ['Quoted-Printable;', quotedPrintable(cms)],
  'quoted-printable, every octet of it': (cms) => [
    'quoted-printable',
    Buffer.from(
      cms
        .toString('hex')
        .toUpperCase()
        .replace(/(..)/g, '=$1')
        .replace(/(.{75})/g, '$1=\r\n'),
    ),
  ],
}

function inLines(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString('base64').replace(/(.{76})/g, '$1\r\n'))
}

function declaring(headers: HeaderList, encoding: string | null): HeaderList {
  return encoding === null ? headers : [...headers, ['Content-Transfer-Encoding', encoding]]
}

/** A signed entity whose signature travels in one of the ways. */
async function signedIn(part: Buffer, travel: string): Promise<{ headers: HeaderList; body: Buffer }> {
  const { headers, body } = await formatMultipartSigned(part, { signing: SIGNING, signingTime: SIGNED_AT })
  const [, boundary = ''] = /boundary="([^"]*)"/.exec(new Map(headers).get('Content-Type') ?? '') ?? []
  const made = body.subarray(part.length + boundary.length + 4).toString('latin1')
  const cms = Buffer.from(made.slice(made.indexOf('\r\n\r\n'), made.lastIndexOf('--' + boundary)), 'base64')
  const [declared, octets] = TRAVELS[travel]?.(cms) ?? [null, cms]
  const type: HeaderList = [['Content-Type', 'application/pkcs7-signature']]
  return {
    headers,
    body: Buffer.concat([
      Buffer.from(`--${boundary}\r\n`),
      part,
      Buffer.from(`\r\n--${boundary}\r\n`),
      formatEntity(declaring(type, declared), octets),
      Buffer.from(`\r\n--${boundary}--\r\n`),
    ]),
  }
}

const PART = Buffer.from('Content-Type: text/plain\r\n\r\nhello')

t.test('A signature is read however it travels, also inside of encryption', async (t) => {
  for (const travel of Object.keys(TRAVELS)) {
    const { headers, body } = await signedIn(PART, travel)
    t.match(await read(headers, body), { signed: true, content: Buffer.from('hello') }, travel)
    const { bytes } = formatEnvelopedData(formatEntity(headers, body), {
      algorithm: 'AES128-CBC',
      keyTransport: 'PKCS1',
      certificate: receiver.certificate,
    })
    const encrypted = await read([['Content-Type', 'application/pkcs7-mime']], bytes)
    t.match(encrypted, { signed: true, encrypted: true, content: Buffer.from('hello') }, travel)
  }
})

t.test('So is the whole of a message', async (t) => {
  const cms = compressedData(PART)
  for (const [travel, make] of Object.entries(TRAVELS)) {
    const [declared, body] = make(cms)
    const headers = declaring([['Content-Type', 'application/pkcs7-mime']], declared)
    t.match(await read(headers, body), { compressed: true, content: Buffer.from('hello') }, travel)
  }
})

t.test('Content in an unknown encoding is taken as it is, and nobody knows its type', async (t) => {
  for (const [encoding, contentType] of [
    ['7-bit', 'text/plain'],
    ['8Bit;', 'text/plain'],
    ['binary (nothing done)', 'text/plain'],
    ['x-uuencode', 'application/octet-stream'],
    ['base64url', 'application/octet-stream'],
  ] as const) {
    const headers = declaring([['Content-Type', 'text/plain']], encoding)
    const part = formatEntity(headers, Buffer.from('aGVsbG8='))
    const signed = await signedIn(part, 'base64')
    const incoming = await read(signed.headers, signed.body)
    t.match(incoming, { signed: true, content: Buffer.from('aGVsbG8='), contentType }, encoding)
    t.ok(micEquals(incoming['mic'] as ReturnType<typeof micOf>, micOf('SHA256', part)), encoding)
    const plain = await read(headers, Buffer.from('aGVsbG8='))
    t.match(plain, { signed: false, content: Buffer.from('aGVsbG8='), contentType }, encoding)
  }
  const several = declaring([['Content-Type', 'multipart/mixed; boundary=x']], 'x-gzip')
  t.match(await read(several, Buffer.from('rubbish')), {
    attachments: null,
    contentType: 'application/octet-stream',
  })
})

t.test('No transfer encoding makes a receipt fail, least of all that of its text', async (t) => {
  const { headers, body } = await composeReceipt({
    as2From: 'b',
    as2To: 'a',
    messageId: '<mdn@b>',
    date: SIGNED_AT,
    originalMessageId: '<1@a>',
    disposition: PROCESSED,
    mic: micOf('SHA256', PART),
    text: 'The message was received.',
    signature: null,
    product: 'Waybill/0.1.0',
  })
  const made = body.toString('latin1')
  for (const encoding of ['7-bit', '8Bit;', 'x-uuencode', 'us-ascii']) {
    const both = made.replaceAll('Transfer-Encoding: 7bit', `Transfer-Encoding: ${encoding}`)
    const textAlone = made.replace('Transfer-Encoding: 7bit', `Transfer-Encoding: ${encoding}`)
    t.not(both, made)
    for (const each of [both, textAlone]) {
      const receipt = await readReceipt({ headers, body: Buffer.from(each), signers: [] })
      t.match(receipt, {
        disposition: PROCESSED,
        originalMessageId: '<1@a>',
        mic: micOf('SHA256', PART),
        text: 'The message was received.',
      })
    }
  }
})

t.test('Whatever a field says, an encoding is one of four', (t) => {
  const words = fc.constantFrom(
    '7bit',
    '8-BIT',
    'base64',
    'quoted-printable',
    '(a)',
    '(',
    ')',
    ';',
    ' ',
    'x',
    '',
  )
  fc.assert(
    fc.property(fc.array(words, { maxLength: 6 }), (given) =>
      ['identity', 'base64', 'quoted-printable', 'unknown'].includes(encodingOf(given.join(''))),
    ),
  )
  t.equal(encodingOf(null), 'identity')
  t.equal(encodingOf(' Base64 ; charset=x'), 'base64')
  t.equal(encodingOf('(as in RFC 2045) quoted-printable'), 'quoted-printable')
  t.equal(encodingOf('7bit, base64'), 'unknown')
  t.end()
})
