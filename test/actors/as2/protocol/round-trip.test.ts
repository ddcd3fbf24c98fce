import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { CIPHERS, KEY_TRANSPORTS } from '../../../../actors/as2/protocol/algorithms.ts'
import type { CipherName } from '../../../../actors/as2/protocol/algorithms.ts'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import type { ComposedMessage, Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { readAnyMessage } from '../../../support/read-any-message.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })

const signature = {
  algorithm: 'SHA256',
  scheme: 'PKCS1',
  certificate: sender.certificate,
  privateKey: sender.privateKey,
} as const
const encryption = {
  algorithm: 'AES256-CBC',
  keyTransport: 'PKCS1',
  certificate: receiver.certificate,
} as const

const SECURE: Outgoing = {
  as2From: 'Sender Ltd',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: 'Rechnung März',
  date: new Date('2026-11-21T08:00:00Z'),
  fileName: 'Rechnung März.edi',
  contentType: 'application/edifact; charset=utf-8',
  content: Buffer.from("UNA:+.? 'UNB+UNOA:1+SENDER+RECEIVER+261121:0800+1'\nUNZ+0+1'"),
  compression: 'BeforeSigning',
  signature,
  encryption,
  receipt: { signed: true, asyncUrl: null },
  product: 'Waybill/0.1.0',
}

function read(message: ComposedMessage): Promise<Incoming> {
  return readMessage({
    headers: message.headers,
    body: message.body,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 10_000_000,
  })
}

/** The entity a message is made of, written down here apart from the code under test. */
function entityOf({ contentType, content }: Outgoing, disposition: string): Buffer {
  const head = `Content-Type: ${contentType}\r\nContent-Transfer-Encoding: binary\r\n${disposition}\r\n`
  return Buffer.concat([Buffer.from(head), content])
}

t.test('A message with the secure defaults arrives as it was sent', async (t) => {
  const message = await composeMessage(SECURE)
  const incoming = await read(message)
  t.same(incoming.content, SECURE.content)
  t.match(incoming, {
    contentType: SECURE.contentType,
    fileName: 'Rechnung März.edi',
    subject: 'Rechnung März',
    messageId: '<1@sender>',
    as2From: 'Sender Ltd',
    as2To: 'receiver',
    signed: true,
    encrypted: true,
    compressed: true,
    algorithms: {
      signature: 'SHA256',
      signatureScheme: 'PKCS1',
      encryption: 'AES256-CBC',
      keyTransport: 'PKCS1',
      compression: 'BeforeSigning',
    },
    receiptRequest: { signed: true, micAlgorithms: ['SHA256'], asyncUrl: null, unsupported: null },
  })
  t.ok(micEquals(incoming.mic, message.mic))
  t.equal(message.mic.algorithm, 'SHA256')
})

t.test('No header is folded, and none holds anything but printable ASCII', async (t) => {
  const { headers } = await composeMessage(SECURE)
  for (const [name, value] of headers) t.match(`${name}: ${value}`, /^[\x21-\x39\x3b-\x7e]+: [\x20-\x7e]+$/)
  t.match(new Map(headers).get('AS2-From'), '"Sender Ltd"')
})

t.test('Every combination of algorithms arrives, with the MIC that the sender expects', async (t) => {
  const signatures: Outgoing['signature'][] = [null]
  for (const algorithm of ['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const) {
    for (const scheme of ['PKCS1', 'PSS'] as const) signatures.push({ ...signature, algorithm, scheme })
  }
  const encryptions: Outgoing['encryption'][] = [null]
  for (const algorithm of Object.keys(CIPHERS) as CipherName[]) {
    for (const keyTransport of Object.keys(KEY_TRANSPORTS) as (keyof typeof KEY_TRANSPORTS)[]) {
      encryptions.push({ ...encryption, algorithm, keyTransport })
    }
  }
  let combinations = 0
  for (const sign of signatures) {
    for (const encrypt of encryptions) {
      for (const compression of ['None', 'BeforeSigning', 'AfterSigning'] as const) {
        combinations++
        const message = await composeMessage({ ...SECURE, signature: sign, encryption: encrypt, compression })
        const incoming = await read(message)
        const { algorithms } = incoming
        const arrived =
          incoming.content.equals(SECURE.content) &&
          incoming.fileName === SECURE.fileName &&
          micEquals(incoming.mic, message.mic) &&
          incoming.signed === (sign !== null) &&
          incoming.encrypted === (encrypt !== null) &&
          incoming.compressed === (compression !== 'None') &&
          algorithms.signature === (sign?.algorithm ?? null) &&
          algorithms.signatureScheme === (sign?.scheme ?? null) &&
          algorithms.encryption === (encrypt?.algorithm ?? null) &&
          algorithms.keyTransport === (encrypt?.keyTransport ?? null)
        if (!arrived)
          t.fail('did not arrive', { sign: sign?.algorithm, encrypt: encrypt?.algorithm, compression })
      }
    }
  }
  t.equal(combinations, 9 * 15 * 3)
})

/** What an operator sees of a subject: control characters are none of it. */
function shown(subject: string): string {
  return subject.toWellFormed().replaceAll(/\p{Cc}/gu, ' ')
}

t.test('Any content, name and subject arrive', async () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 5_000 }),
      text,
      text,
      fc.constantFrom('None', 'BeforeSigning', 'AfterSigning'),
      fc.boolean(),
      fc.boolean(),
      async (bytes, fileName, subject, compression, signs, encrypts) => {
        const content = Buffer.from(bytes)
        const message = await composeMessage({
          ...SECURE,
          content,
          fileName,
          subject,
          compression,
          signature: signs ? signature : null,
          encryption: encrypts ? encryption : null,
        })
        const incoming = await read(message)
        return (
          incoming.content.equals(content) &&
          incoming.fileName === (fileName === '' ? null : fileName) &&
          incoming.subject === (subject === '' ? null : shown(subject)) &&
          micEquals(incoming.mic, message.mic)
        )
      },
    ),
    { numRuns: 150 },
  )
})

t.test('The MIC is over what RFC 4130 §7.3.1 and RFC 5402 §4 say', async (t) => {
  const plain = {
    ...SECURE,
    fileName: 'a.edi',
    compression: 'None',
    signature: null,
    encryption: null,
  } as const
  const entity = entityOf(plain, 'Content-Disposition: attachment; filename="a.edi"\r\n')
  const of = (bytes: Buffer, algorithm = 'sha256'): string =>
    createHash(algorithm).update(bytes).digest('base64')
  const mic = async (changes: Partial<Outgoing>): Promise<string> =>
    (await composeMessage({ ...plain, ...changes })).mic.value
  t.equal(await mic({}), of(plain.content), 'plain: the body without headers')
  t.equal(await mic({ receipt: null }), of(plain.content, 'sha1'), 'no request: SHA-1')
  t.equal(await mic({ signature }), of(entity), 'signed: the signed part')
  t.equal(await mic({ signature, encryption }), of(entity), 'signed and encrypted: the signed part')
  t.equal(await mic({ signature, compression: 'AfterSigning' }), of(entity), 'signed, then compressed')
  t.equal(await mic({ encryption }), of(entity), 'encrypted: the decrypted entity')
  t.equal(await mic({ encryption, compression: 'BeforeSigning' }), of(entity), 'compressed and encrypted')
  t.equal(await mic({ compression: 'BeforeSigning' }), of(entity), 'compressed: the entity with headers')
  t.equal(
    await mic({ signature: { ...signature, algorithm: 'SHA512' } }),
    of(entity, 'sha512'),
    'by the digest of the signature',
  )

  const signed = await composeMessage({ ...plain, signature, compression: 'BeforeSigning' })
  const [, boundary = ''] = /boundary="([^"]+)"/.exec(new Map(signed.headers).get('Content-Type') ?? '') ?? []
  const opening = `--${boundary}\r\n`
  const end = signed.body.indexOf(`\r\n--${boundary}\r\n`)
  const part = signed.body.subarray(opening.length, end)
  t.match(part.toString('latin1'), 'smime-type=compressed-data')
  t.equal(signed.mic.value, of(part), 'compressed, then signed: the compressed part as signed')
  t.not(signed.mic.value, of(entity))

  const compressedOnly = await composeMessage({ ...plain, compression: 'AfterSigning' })
  t.equal(compressedOnly.alternativeMic?.value, of(plain.content), 'what others hash for compressed only')
  t.equal((await composeMessage({ ...plain, signature })).alternativeMic, null)
})

t.test('A repeat of a message has the same MIC', async (t) => {
  for (const compression of ['None', 'BeforeSigning', 'AfterSigning'] as const) {
    const first = await composeMessage({ ...SECURE, compression })
    const second = await composeMessage({ ...SECURE, compression, date: new Date('2026-11-22T09:00:00Z') })
    t.same(first.mic, second.mic)
  }
})

t.test('What cannot be sent is a ComposeError', async (t) => {
  const edwards = makeCertificate({ commonName: 'Edwards', keyType: 'ed25519' })
  const bad: Record<string, Partial<Outgoing>> = {
    'an empty AS2 name': { as2To: '' },
    'a Message-ID with a line break': { messageId: '<a\r\nX: y>' },
    'a content type with a line break': { contentType: 'text/plain\r\nX: y' },
    'no content type': { contentType: 'text' },
    'a content type of S/MIME': { contentType: 'application/pkcs7-mime' },
    'the content type of a receipt': { contentType: 'multipart/report; boundary=x' },
    'the content type of what a receipt says': { contentType: 'message/disposition-notification' },
    'a receipt URL of another scheme': { receipt: { signed: true, asyncUrl: 'file:///etc/passwd' } },
    'a product with a line break': { product: 'a\r\nb' },
    'no date': { date: new Date(Number.NaN) },
    'a key that cannot sign': { signature: { ...signature, privateKey: edwards.privateKey } },
    'a key that cannot encrypt': { encryption: { ...encryption, certificate: edwards.certificate } },
  }
  for (const [name, changes] of Object.entries(bad)) {
    await t.rejects(composeMessage({ ...SECURE, ...changes }), { name: 'ComposeError' }, name)
  }
})

t.test('A message of 20 MB arrives, and one that expands beyond the limit does not', async (t) => {
  const content = Buffer.alloc(20_000_000, "NAD+BY+4012345000009::9'\n")
  const message = await composeMessage({ ...SECURE, content })
  t.ok(message.body.length < 1_000_000, 'compressed')
  const { headers, body } = message
  const received = { headers, body, decryption: [receiver], signers: [sender.certificate] }
  const incoming = await readAnyMessage({ ...received, maxContentBytes: content.length })
  t.ok(incoming.content.equals(content))
  await t.rejects(readAnyMessage({ ...received, maxContentBytes: 10_000_000 }), {
    name: 'Refusal',
    modifier: 'decompression-failed',
  })
  await t.rejects(readAnyMessage({ ...received, maxContentBytes: content.length - 1 }), {
    name: 'Refusal',
    modifier: 'unexpected-processing-error',
  })
})
