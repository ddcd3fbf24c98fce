import t from 'tap'
import { composeMessage } from '../../actors/as2/protocol/compose.ts'
import { micEquals, micOf } from '../../actors/as2/protocol/mic.ts'
import { Refusal } from '../../actors/as2/protocol/refusal.ts'
import { CERTIFICATES, CURVES, RSA, type Name } from './openssl-certificates.ts'
import { bodyOf, CONTENT, ENTITY, Openssl, PLAIN, readFrom, withoutHeaders } from './openssl.ts'

/** Signatures between us and `openssl cms`, in every combination that it can make and verify. */

t.setTimeout(180_000)

const DIGESTS = ['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const

const openssl = await Openssl.start(t, CERTIFICATES)

t.test('openssl verifies what we sign', async (t) => {
  const rows: { name: Name; algorithm: (typeof DIGESTS)[number]; scheme: 'PKCS1' | 'PSS' }[] = []
  for (const algorithm of DIGESTS) {
    for (const name of RSA)
      rows.push({ name, algorithm, scheme: 'PKCS1' }, { name, algorithm, scheme: 'PSS' })
    for (const name of CURVES) rows.push({ name, algorithm, scheme: 'PSS' })
  }
  for (const { name, algorithm, scheme } of rows) {
    const { certificate, privateKey } = CERTIFICATES[name]
    const signature = { algorithm, scheme, certificate, privateKey }
    const { headers, body } = await composeMessage({ ...PLAIN, signature })
    const type = new Map(headers).get('Content-Type') ?? ''
    const entity = Buffer.concat([Buffer.from(`Content-Type: ${type}\r\n\r\n`), body])
    const row = `${algorithm} by ${name}${RSA.includes(name) ? ` with ${scheme}` : ''}`
    t.same(bodyOf(await openssl.verify(entity, name)), CONTENT, row)
    t.match(type, `micalg=${algorithm === 'SHA1' ? 'sha1' : algorithm.replace('SHA', 'sha-')}`, row)
  }
})

const PSS = ['-keyopt', 'rsa_padding_mode:pss']
const saltLength = (bytes: string): string[] => [...PSS, '-keyopt', `rsa_pss_saltlen:${bytes}`]
const mask = (digest: string): string[] => ['-keyopt', `rsa_mgf1_md:${digest.toLowerCase()}`]

interface Row {
  readonly name: Name
  readonly digest: (typeof DIGESTS)[number]
  readonly options: readonly string[]
  readonly scheme: 'PKCS1' | 'PSS' | 'ECDSA'
}

/** Every digest with every key and padding, every length of the salt, and every digest of the mask. */
const ROWS: Row[] = []
for (const digest of DIGESTS) {
  for (const name of RSA) {
    ROWS.push({ name, digest, options: [], scheme: 'PKCS1' }, { name, digest, options: PSS, scheme: 'PSS' })
  }
  for (const name of CURVES) ROWS.push({ name, digest, options: [], scheme: 'ECDSA' })
}
for (const bytes of ['0', '10', 'digest', 'max']) {
  ROWS.push({ name: 'rsa2048', digest: 'SHA256', options: saltLength(bytes), scheme: 'PSS' })
  const options = [...saltLength(bytes), ...mask('SHA1')]
  ROWS.push({ name: 'rsa3072', digest: 'SHA512', options, scheme: 'PSS' })
}
for (const digest of DIGESTS) {
  for (const other of DIGESTS.filter((each) => each !== digest)) {
    ROWS.push({ name: 'rsa2048', digest, options: [...PSS, ...mask(other)], scheme: 'PSS' })
  }
}

const FORMS: Readonly<Record<string, readonly string[]>> = {
  detached: ['-outform', 'SMIME'],
  'detached, with key identifier and without certificate': ['-outform', 'SMIME', '-keyid', '-nocerts'],
  'detached, with CAdES attributes and streamed': ['-outform', 'SMIME', '-cades', '-stream', '-nosmimecap'],
  'opaque, DER': ['-outform', 'DER', '-nodetach'],
  'opaque, BER of indefinite lengths': ['-outform', 'DER', '-nodetach', '-stream', '-indef'],
  'opaque, base64': ['-outform', 'SMIME', '-nodetach'],
}

t.test('We verify what openssl signs, detached and opaque', async (t) => {
  for (const { name, digest, options, scheme } of ROWS) {
    for (const [form, formOptions] of Object.entries(FORMS)) {
      // openssl cannot stream what it signs with PSS.
      if (scheme === 'PSS' && formOptions.includes('-stream')) continue
      const signer = [...openssl.signer(name), '-md', digest.toLowerCase(), ...options]
      const written = await openssl.cms(ENTITY, '-sign', '-binary', ...signer, ...formOptions)
      const received = formOptions.includes('DER')
        ? { contentType: 'application/x-pkcs7-mime; smime-type=signed-data', body: written }
        : withoutHeaders(written)
      const incoming = await readFrom(received, { signers: [CERTIFICATES.stranger, CERTIFICATES[name]] })
      const row = `${digest} by ${name}, ${options.slice(-1).join('')} ${form}`
      t.same(incoming.content, CONTENT, row)
      const { certificate } = CERTIFICATES[name]
      t.match(incoming, { signed: true, fileName: 'b.edi', signer: { certificate } }, row)
      t.match(incoming.algorithms, { signature: digest, signatureScheme: scheme }, row)
      t.ok(micEquals(incoming.mic, micOf(digest, ENTITY)), row)
    }
  }
})

const SIGNER = openssl.signer('rsa2048')

const REFUSED: Readonly<Record<string, { options: readonly string[]; reason: RegExp }>> = {
  'without signed attributes': { options: [...SIGNER, '-noattr'], reason: /no signed attributes/ },
  'with two signers': { options: [...SIGNER, ...openssl.signer('stranger')], reason: /more than one signer/ },
  'by a stranger': { options: openssl.signer('stranger'), reason: /not of any certificate/ },
  'by a stranger on a curve': { options: openssl.signer('p256'), reason: /not of any certificate/ },
  'with PSS and SHA-224 in its mask': {
    options: [...SIGNER, ...PSS, '-md', 'sha256', '-keyopt', 'rsa_mgf1_md:sha224'],
    reason: /mask of the PSS signature is not supported/,
  },
  'with SHA-224': { options: [...SIGNER, '-md', 'sha224'], reason: /SHA-224/ },
  'with SHA3-256': { options: [...SIGNER, '-md', 'sha3-256'], reason: /SHA3-256/ },
}

t.test('We refuse signatures that openssl makes otherwise, and say why', async (t) => {
  for (const [row, { options, reason }] of Object.entries(REFUSED)) {
    for (const form of [
      ['-outform', 'SMIME'],
      ['-outform', 'SMIME', '-nodetach'],
    ]) {
      const written = await openssl.cms(ENTITY, '-sign', '-binary', ...options, ...form)
      const reading = readFrom(withoutHeaders(written), { signers: [CERTIFICATES.rsa2048] })
      const refusal = await reading.catch((thrown: unknown) => thrown)
      t.ok(refusal instanceof Refusal, row)
      t.match(refusal, { modifier: 'authentication-failed', reason }, row)
    }
  }
})
