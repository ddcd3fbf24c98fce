import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inflateSync } from 'node:zlib'
import t from 'tap'
import { BerReader } from '../../actors/as2/protocol/asn1/reader.ts'
import { composeMessage } from '../../actors/as2/protocol/compose.ts'
import type { Outgoing } from '../../actors/as2/protocol/compose.ts'
import { micEquals, micOf } from '../../actors/as2/protocol/mic.ts'
import { readMessage } from '../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../actors/as2/protocol/read.ts'
import { composeReceipt } from '../../actors/as2/protocol/receipt.ts'
import { makeCertificate } from '../support/certificates.ts'

const run = promisify(execFile)
const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })

const directory = await mkdtemp(join(tmpdir(), 'waybill-cms-'))
t.teardown(() => rm(directory, { recursive: true, force: true }))
const at = (name: string): string => join(directory, name)
await writeFile(at('sender.pem'), sender.certificatePem)
await writeFile(at('sender.key'), sender.privateKeyPem)
await writeFile(at('receiver.pem'), receiver.certificatePem)
await writeFile(at('receiver.key'), receiver.privateKeyPem)

/** Runs `openssl cms` over a file; gives what it wrote. */
async function cms(input: Buffer, ...options: string[]): Promise<Buffer> {
  await writeFile(at('in'), input)
  await run('openssl', ['cms', '-in', at('in'), '-out', at('out'), ...options])
  return readFile(at('out'))
}

const decrypt = (input: Buffer): Promise<Buffer> =>
  cms(input, '-decrypt', '-inform', 'DER', '-recip', at('receiver.pem'), '-inkey', at('receiver.key'))

/** Has openssl verify a multipart/signed entity, given as its two parts, since it takes text only as a whole. */
async function verify(entity: Buffer): Promise<Buffer> {
  const [, boundary = ''] = /boundary="([^"]+)"/.exec(entity.toString('latin1')) ?? []
  const start = entity.indexOf(`--${boundary}\r\n`) + boundary.length + 4
  const end = entity.indexOf(`\r\n--${boundary}\r\n`, start)
  await writeFile(at('content'), entity.subarray(start, end))
  const signature = Buffer.from(
    contentOf(entity.subarray(end + 4))
      .toString('latin1')
      .split('--')[0] ?? '',
    'base64',
  )
  const trusted = ['-CAfile', at('sender.pem'), '-purpose', 'any']
  return cms(signature, '-verify', '-binary', '-inform', 'DER', '-content', at('content'), ...trusted)
}

const MESSAGE: Outgoing = {
  as2From: 'sender',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: null,
  date: new Date(),
  fileName: 'a.edi',
  contentType: 'application/edifact',
  content: Buffer.from("UNB+UNOA:1'\r\nUNZ+0+1'\r\n".repeat(200)),
  compression: 'None',
  signature: {
    algorithm: 'SHA256',
    scheme: 'PKCS1',
    certificate: sender.certificate,
    privateKey: sender.privateKey,
  },
  encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: receiver.certificate },
  receipt: { signed: true, asyncUrl: null },
  product: 'Waybill/0.1.0',
}

const contentOf = (entity: Buffer): Buffer => entity.subarray(entity.indexOf('\r\n\r\n') + 4)

t.test('openssl decrypts and verifies what we send, with every algorithm', async (t) => {
  for (const algorithm of [
    '3DES',
    'AES128-CBC',
    'AES192-CBC',
    'AES256-CBC',
    'AES128-GCM',
    'AES256-GCM',
  ] as const) {
    for (const keyTransport of ['PKCS1', 'OAEP'] as const) {
      const encryption = { algorithm, keyTransport, certificate: receiver.certificate }
      const { body } = await composeMessage({ ...MESSAGE, encryption })
      const signed = await decrypt(body)
      t.same(contentOf(await verify(signed)), MESSAGE.content, `${algorithm} with ${keyTransport}`)
    }
  }
  for (const algorithm of ['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const) {
    for (const scheme of ['PKCS1', 'PSS'] as const) {
      const signature = { algorithm, scheme, certificate: sender.certificate, privateKey: sender.privateKey }
      const { body } = await composeMessage({ ...MESSAGE, signature })
      t.same(contentOf(await verify(await decrypt(body))), MESSAGE.content, `${algorithm} with ${scheme}`)
    }
  }
})

t.test('openssl finds the compressed content of the secure defaults', async (t) => {
  const { body } = await composeMessage({ ...MESSAGE, compression: 'BeforeSigning' })
  const compressed = contentOf(await verify(await decrypt(body)))
  // Debian builds openssl without zlib, so that openssl parses the structure and zlib opens it.
  const printed = (await cms(compressed, '-cmsout', '-print', '-inform', 'DER')).toString()
  t.match(printed, 'id-smime-ct-compressedData')
  t.match(printed, 'zlib compression')
  const data = new BerReader(compressed).next().children()
  data.next()
  const fields = data.next().children().next().children()
  fields.next()
  fields.next()
  const encapsulated = fields.next().children()
  encapsulated.next()
  const entity = inflateSync(encapsulated.next().children().next().octets())
  t.same(contentOf(entity), MESSAGE.content)
})

t.test('openssl verifies our receipts', async (t) => {
  const { headers, body } = await composeReceipt({
    as2From: 'receiver',
    as2To: 'sender',
    messageId: null,
    date: new Date(),
    originalMessageId: '<1@sender>',
    disposition: { type: 'processed', modifier: null },
    mic: micOf('SHA256', MESSAGE.content),
    text: 'The message was received.',
    signature: {
      algorithm: 'SHA256',
      scheme: 'PKCS1',
      certificate: sender.certificate,
      privateKey: sender.privateKey,
    },
    product: 'Waybill/0.1.0',
  })
  const type = new Map(headers).get('Content-Type') ?? ''
  const report = await verify(Buffer.concat([Buffer.from(`Content-Type: ${type}\r\n\r\n`), body]))
  t.match(report.toString('latin1'), 'Disposition: automatic-action/MDN-sent-automatically; processed')
})

/** Reads a message that openssl wrote with its MIME headers. */
function read(contentType: string, body: Buffer): Promise<Incoming> {
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Message-ID', '<1@sender>'],
      ['Content-Type', contentType],
    ],
    body,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
  })
}

/** Takes the headers off an S/MIME file. */
function unfile(file: Buffer): { contentType: string; body: Buffer } {
  const lines = file.indexOf('\n\n') >= 0 ? '\n\n' : '\r\n\r\n'
  const end = file.indexOf(lines)
  const head = file.toString('latin1', 0, end)
  const [, contentType = ''] = /^Content-Type: (.*)$/m.exec(head) ?? []
  return { contentType: contentType.trim(), body: file.subarray(end + lines.length) }
}

const REFUSED = { name: 'Refusal', modifier: 'authentication-failed' }
const ENTITY = Buffer.concat([
  Buffer.from(
    'Content-Type: application/edifact\r\nContent-Disposition: attachment; filename="b.edi"\r\n\r\n',
  ),
  MESSAGE.content,
])
const SIGNER = ['-signer', at('sender.pem'), '-inkey', at('sender.key')]

async function sign(...options: string[]): Promise<{ contentType: string; body: Buffer }> {
  return unfile(await cms(ENTITY, '-sign', '-binary', ...SIGNER, '-outform', 'SMIME', ...options))
}

t.test('We verify what openssl signs', async (t) => {
  const variants: string[][] = [
    ['-md', 'sha1'],
    ['-md', 'sha256'],
    ['-md', 'sha512', '-nocerts'],
    ['-md', 'sha384', '-keyid'],
    ['-md', 'sha256', '-keyopt', 'rsa_padding_mode:pss'],
    ['-md', 'sha256', '-keyopt', 'rsa_padding_mode:pss', '-keyopt', 'rsa_pss_saltlen:10'],
    ['-md', 'sha256', '-nosmimecap', '-stream'],
  ]
  for (const options of variants) {
    const { contentType, body } = await sign(...options)
    const incoming = await read(contentType, body)
    t.same(incoming.content, MESSAGE.content, options.join(' '))
    t.match(incoming, { signed: true, encrypted: false, compressed: false, fileName: 'b.edi' })
    t.ok(micEquals(incoming.mic, micOf(incoming.algorithms.signature ?? 'MD5', ENTITY)))
  }
})

t.test('We take opaque signatures, in DER and as BER of indefinite length', async (t) => {
  for (const options of [['-nodetach'], ['-nodetach', '-stream']]) {
    const der = await cms(ENTITY, '-sign', '-binary', ...SIGNER, '-outform', 'DER', ...options)
    const incoming = await read('application/x-pkcs7-mime; smime-type=signed-data', der)
    t.same(incoming.content, MESSAGE.content)
    t.ok(incoming.signed)
    t.ok(micEquals(incoming.mic, micOf('SHA256', ENTITY)))
  }
})

t.test('A signature without attributes is refused', async (t) => {
  const { contentType, body } = await sign('-noattr')
  await t.rejects(read(contentType, body), REFUSED)
})

t.test('A message with two signers is refused', async (t) => {
  const second = ['-signer', at('receiver.pem'), '-inkey', at('receiver.key')]
  const { contentType, body } = await sign(...second)
  await t.rejects(read(contentType, body), REFUSED)
})

t.test('We decrypt what openssl encrypts, in DER and as BER of indefinite length', async (t) => {
  const ciphers = ['-des3', '-aes-128-cbc', '-aes-192-cbc', '-aes-256-cbc', '-aes-128-gcm', '-aes-256-gcm']
  for (const cipher of ciphers) {
    for (const options of [[], ['-stream'], ['-keyid']]) {
      const ber = await cms(
        ENTITY,
        '-encrypt',
        '-binary',
        cipher,
        '-outform',
        'DER',
        ...options,
        at('receiver.pem'),
      )
      const incoming = await read('application/pkcs7-mime', Buffer.concat([ber, Buffer.from('\r\n')]))
      t.same(incoming.content, MESSAGE.content, [cipher, ...options].join(' '))
      t.match(incoming, { encrypted: true, signed: false, fileName: 'b.edi' })
      t.ok(micEquals(incoming.mic, micOf('SHA1', ENTITY)))
    }
  }
  for (const keyOptions of [['rsa_oaep_md:sha256'], []]) {
    const ber = await cms(
      ENTITY,
      '-encrypt',
      '-binary',
      '-aes-256-cbc',
      '-outform',
      'DER',
      '-recip',
      at('receiver.pem'),
      ...['rsa_padding_mode:oaep', ...keyOptions].flatMap((option) => ['-keyopt', option]),
    )
    t.same((await read('application/pkcs7-mime', ber)).content, MESSAGE.content, `OAEP ${keyOptions.join()}`)
  }
})

t.test('We choose our recipient among several', async (t) => {
  const ber = await cms(
    ENTITY,
    '-encrypt',
    '-binary',
    '-aes-256-cbc',
    '-outform',
    'DER',
    at('sender.pem'),
    at('receiver.pem'),
  )
  t.same((await read('application/pkcs7-mime', ber)).content, MESSAGE.content)
})

t.test('We take what openssl signs and then encrypts, in base64 too', async (t) => {
  const signed = await cms(ENTITY, '-sign', '-binary', ...SIGNER, '-outform', 'SMIME')
  const file = await cms(
    signed,
    '-encrypt',
    '-binary',
    '-aes-256-cbc',
    '-outform',
    'SMIME',
    at('receiver.pem'),
  )
  const { contentType, body } = unfile(file)
  const incoming = await read(contentType, body)
  t.same(incoming.content, MESSAGE.content)
  t.match(incoming, { encrypted: true, signed: true })
  t.ok(micEquals(incoming.mic, micOf('SHA256', ENTITY)))
})
