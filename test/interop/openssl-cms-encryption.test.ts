import t from 'tap'
import { composeMessage } from '../../actors/as2/protocol/compose.ts'
import type { CipherName } from '../../actors/as2/protocol/algorithms.ts'
import { micEquals, micOf } from '../../actors/as2/protocol/mic.ts'
import { Refusal } from '../../actors/as2/protocol/refusal.ts'
import { CERTIFICATES, CURVES, RSA, type Name } from './openssl-certificates.ts'
import { bodyOf, CONTENT, ENTITY, Openssl, PLAIN, readFrom } from './openssl.ts'

/** Encryption between us and `openssl cms`, in every combination that it can make and open. */

t.setTimeout(180_000)

const CIPHERS: readonly (readonly [CipherName, string])[] = [
  ['3DES', '-des3'],
  ['AES128-CBC', '-aes-128-cbc'],
  ['AES192-CBC', '-aes-192-cbc'],
  ['AES256-CBC', '-aes-256-cbc'],
  ['AES128-GCM', '-aes-128-gcm'],
  ['AES192-GCM', '-aes-192-gcm'],
  ['AES256-GCM', '-aes-256-gcm'],
]

const openssl = await Openssl.start(t, CERTIFICATES)

t.test('openssl decrypts what we encrypt', async (t) => {
  const transports = [
    { keyTransport: 'PKCS1' },
    { keyTransport: 'OAEP', oaepDigest: 'SHA1' },
    { keyTransport: 'OAEP', oaepDigest: 'SHA256' },
  ] as const
  for (const [algorithm] of CIPHERS) {
    const rows = [
      ...RSA.flatMap((name) => transports.map((transport) => ({ name, transport }))),
      ...CURVES.map((name) => ({ name, transport: { keyTransport: 'PKCS1' } as const })),
    ]
    for (const { name, transport } of rows) {
      const { certificate } = CERTIFICATES[name]
      const { body } = await composeMessage({
        ...PLAIN,
        encryption: { algorithm, certificate, ...transport },
      })
      const row = `${algorithm} to ${name} ${Object.values(transport).join(' ')}`
      t.same(bodyOf(await openssl.decrypt(body, name)), CONTENT, row)
    }
  }
})

const keyOptions = (...options: string[]): string[] => options.flatMap((option) => ['-keyopt', option])
const OAEP = 'rsa_padding_mode:oaep'

/** How openssl may bring the content key to an RSA key, and to a key on a curve. */
const TRANSPORTS: Readonly<Record<string, readonly string[]>> = {
  'PKCS #1': [],
  'OAEP with SHA-1': keyOptions(OAEP),
  'OAEP with SHA-256': keyOptions(OAEP, 'rsa_oaep_md:sha256'),
  'OAEP with SHA-512': keyOptions(OAEP, 'rsa_oaep_md:sha512'),
  'OAEP with SHA-256 and a mask with SHA-1': keyOptions(OAEP, 'rsa_oaep_md:sha256', 'rsa_mgf1_md:sha1'),
  'OAEP with SHA-1 and a mask with SHA-384': keyOptions(OAEP, 'rsa_mgf1_md:sha384'),
  'OAEP with a label': keyOptions(OAEP, 'rsa_oaep_label:6c6162656c'),
  'OAEP with a label and two digests': keyOptions(OAEP, 'rsa_oaep_label:6c6162656c', 'rsa_mgf1_md:sha256'),
}
const DERIVATIONS = ['sha1', 'sha224', 'sha256', 'sha384', 'sha512']
const WRAPS = ['-aes128-wrap', '-aes192-wrap', '-aes256-wrap', '-des3-wrap']
const AGREEMENTS: Record<string, readonly string[]> = { 'what openssl chooses': [] }
for (const digest of DERIVATIONS) {
  const derivation = `ecdh_kdf_md:${digest}`
  AGREEMENTS[`${digest} with cofactor`] = keyOptions(derivation, 'ecdh_cofactor_mode:1')
  for (const wrap of WRAPS) AGREEMENTS[`${digest} and ${wrap}`] = [...keyOptions(derivation), wrap]
}

const FORMS: Readonly<Record<string, readonly string[]>> = {
  DER: [],
  'BER of indefinite lengths': ['-stream', '-indef'],
  'by key identifier': ['-keyid'],
}

interface Row {
  readonly name: Name
  readonly cipher: readonly [CipherName, string]
  readonly options: readonly string[]
  readonly form: string
}

async function encrypted({ name, cipher, options, form }: Row): Promise<Buffer> {
  const recipient = ['-recip', openssl.pem(name), ...options]
  const forms = [...(FORMS[form] ?? []), '-outform', 'DER']
  return openssl.cms(ENTITY, '-encrypt', '-binary', cipher[1], ...forms, ...recipient)
}

/** Every cipher with every key in every form, and with every way to the key. */
const ROWS: Record<string, Row> = {}
for (const cipher of CIPHERS) {
  for (const form of Object.keys(FORMS)) {
    for (const name of [...RSA, ...CURVES]) {
      ROWS[`${cipher[0]} to ${name}, ${form}`] = { name, cipher, options: [], form }
    }
  }
  for (const [row, options] of Object.entries(TRANSPORTS)) {
    ROWS[`${cipher[0]} by ${row}`] = { name: 'rsa2048', cipher, options, form: 'DER' }
  }
  for (const [row, options] of Object.entries(AGREEMENTS)) {
    ROWS[`${cipher[0]} by ${row}`] = { name: 'p256', cipher, options, form: 'DER' }
  }
}

t.test('We decrypt what openssl encrypts', async (t) => {
  for (const [name, row] of Object.entries(ROWS)) {
    const ber = await encrypted(row)
    const received = {
      contentType: 'application/pkcs7-mime',
      body: Buffer.concat([ber, Buffer.from('\r\n')]),
    }
    const decryption = [CERTIFICATES.stranger, CERTIFICATES[row.name]]
    const incoming = await readFrom(received, { decryption })
    t.same(incoming.content, CONTENT, name)
    t.match(incoming, { encrypted: true, signed: false, fileName: 'b.edi' }, name)
    t.equal(incoming.algorithms.encryption, row.cipher[0], name)
    t.ok(micEquals(incoming.mic, micOf('SHA1', ENTITY)), name)
  }
})

t.test('We choose our recipient among several, of RSA and of curves', async (t) => {
  const names = Object.keys(CERTIFICATES) as Name[]
  const recipients = names.map((name) => openssl.pem(name))
  const body = await openssl.cms(
    ENTITY,
    '-encrypt',
    '-binary',
    '-aes-256-cbc',
    '-outform',
    'DER',
    ...recipients,
  )
  for (const name of names) {
    const incoming = await readFrom(
      { contentType: 'application/pkcs7-mime', body },
      { decryption: [CERTIFICATES[name]] },
    )
    t.same(incoming.content, CONTENT, name)
    t.equal(incoming.algorithms.keyTransport, CURVES.includes(name) ? 'ECDH' : 'PKCS1')
  }
})

const REFUSED: Readonly<Record<string, { options: readonly string[]; reason: RegExp }>> = {
  'to somebody else': {
    options: ['-aes256', openssl.pem('stranger')],
    reason: /not encrypted to any of our/,
  },
  'with Camellia': { options: ['-camellia256', openssl.pem('rsa2048')], reason: /Camellia-256/ },
  'with a password': {
    options: ['-aes256', '-pwri_password', 'secret'],
    reason: /not encrypted to any of our/,
  },
  'with OAEP and SHA-224': {
    options: ['-aes256', '-recip', openssl.pem('rsa2048'), ...keyOptions(OAEP, 'rsa_oaep_md:sha224')],
    reason: /SHA-224/,
  },
}

t.test('We refuse what openssl encrypts otherwise, and say why', async (t) => {
  for (const [row, { options, reason }] of Object.entries(REFUSED)) {
    const body = await openssl.cms(ENTITY, '-encrypt', '-binary', '-outform', 'DER', ...options)
    const reading = readFrom(
      { contentType: 'application/pkcs7-mime', body },
      { decryption: [CERTIFICATES.rsa2048] },
    )
    const refusal = await reading.catch((thrown: unknown) => thrown)
    t.ok(refusal instanceof Refusal, row)
    t.match(refusal, { modifier: 'decryption-failed', reason }, row)
  }
})
