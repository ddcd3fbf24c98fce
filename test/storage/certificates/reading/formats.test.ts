import { createPrivateKey } from 'node:crypto'
import t from 'tap'
import { makeCertificate, type TestCertificate } from '../../../support/certificates.ts'
import { sealedKey, SEALING_NAMES } from '../../../support/password-sealing.ts'
import { pemOf } from '../../../support/pem.ts'
import { makePkcs12, writePkcs12 } from '../../../support/pkcs12.ts'
import { writeBerPkcs7, writePkcs7 } from '../../../support/pkcs7.ts'
import { holdsCertificates, holdsPair, parse, refusalOf } from './reading.ts'

const rsa = makeCertificate({ commonName: 'rsa' })
const ec = makeCertificate({ commonName: 'ec', keyType: 'ec' })
const ed25519 = makeCertificate({ commonName: 'ed25519', keyType: 'ed25519' })
const pss = makeCertificate({ commonName: 'pss', keyType: 'rsa-pss' })

const pkcs8Of = ({ privateKey }: TestCertificate): Buffer =>
  privateKey.export({ format: 'der', type: 'pkcs8' })
const pem = rsa.certificatePem

t.test('a certificate is read from PEM and DER, whatever stands around it', async (t) => {
  const texts: Record<string, string | Buffer> = {
    PEM: pem,
    'PEM with Windows line ends': pem.replaceAll('\n', '\r\n'),
    'PEM with the line ends of an old Mac': pem.replaceAll('\n', '\r'),
    'PEM with a byte order mark': `\ufeff${pem}`,
    'PEM in UTF-16': Buffer.from(`\ufeff${pem}`, 'utf16le'),
    'PEM in UTF-16 of the other order': Buffer.from(`\ufeff${pem}`, 'utf16le').swap16(),
    'PEM in UTF-16 without a mark': Buffer.from(pem, 'utf16le'),
    'PEM after text': `Bag Attributes\n  friendlyName: Zürich -- 1\nsubject=CN = rsa\n${pem}and after it\n`,
    'PEM with spaces at the ends of lines': pem.replaceAll('\n', '  \n'),
    'PEM in one line': pem.replaceAll(/(?<=[A-Za-z0-9+/=])\n(?=[A-Za-z0-9+/=])/g, ''),
    'PEM of another label': pem.replaceAll('CERTIFICATE', 'X509 CERTIFICATE'),
    'PEM of OpenSSL with trust': pem.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE'),
    'base64 that lost its first and last line': pem.split('\n').slice(1, -2).join('\n'),
    DER: rsa.certificate,
    'DER with a line end': Buffer.concat([rsa.certificate, Buffer.from('\r\n')]),
    'DER, filled up with zeros': Buffer.concat([rsa.certificate, Buffer.alloc(100)]),
    'PKCS#7 as DER': writePkcs7([rsa]),
    'PKCS#7 as BER': writeBerPkcs7([rsa]),
    'PKCS#7 as PEM': pemOf('PKCS7', writePkcs7([rsa])),
    'PKCS#7 as PEM of another label': pemOf('CMS', writeBerPkcs7([rsa])),
    'PKCS#7 that is called a certificate': pemOf('CERTIFICATE', writePkcs7([rsa])),
  }
  for (const [name, content] of Object.entries(texts)) t.ok(holdsCertificates(parse(content), [rsa]), name)
})

t.test('several certificates are read in their order', async (t) => {
  const all = [rsa, ec, ed25519, pss]
  const contents: Record<string, string | Buffer> = {
    PEM: all.map(({ certificatePem }) => certificatePem).join(''),
    'DER one after the other': Buffer.concat(all.map(({ certificate }) => certificate)),
    'PKCS#7': writePkcs7(all),
    'PKCS#7 as BER': writeBerPkcs7(all),
    'PKCS#12': writePkcs12({ certificates: all, password: '' }),
  }
  for (const [name, content] of Object.entries(contents)) t.ok(holdsCertificates(parse(content), all), name)
})

t.test('a private key is read in every format and paired with its certificate', async (t) => {
  const formats = ({ privateKey, keyType }: TestCertificate) => ({
    'PKCS#8 as DER': privateKey.export({ format: 'der', type: 'pkcs8' }),
    'PKCS#8 as PEM': privateKey.export({ format: 'pem', type: 'pkcs8' }),
    ...(keyType === 'rsa'
      ? {
          'PKCS#1 as DER': privateKey.export({ format: 'der', type: 'pkcs1' }),
          'PKCS#1 as PEM': privateKey.export({ format: 'pem', type: 'pkcs1' }),
        }
      : {}),
    ...(keyType === 'ec'
      ? {
          'SEC1 as DER': privateKey.export({ format: 'der', type: 'sec1' }),
          'SEC1 as PEM': privateKey.export({ format: 'pem', type: 'sec1' }),
        }
      : {}),
  })
  for (const made of [rsa, ec, ed25519, pss]) {
    for (const [name, privateKey] of Object.entries(formats(made))) {
      t.ok(holdsPair(parse(made.certificate, { privateKey }), made), `${made.keyType}, ${name}, its own file`)
      const joined = [made.certificate, Buffer.from(privateKey as string)]
      const inOne = name.endsWith('PEM')
        ? `${String(privateKey)}${made.certificatePem}`
        : Buffer.concat(joined)
      t.ok(holdsPair(parse(inOne), made), `${made.keyType}, ${name}, in one file`)
    }
  }
  const windows = Buffer.from(`\ufeff${rsa.privateKeyPem.replaceAll('\n', '\r\n')}`, 'utf16le')
  t.ok(holdsPair(parse(pem, { privateKey: windows }), rsa), 'as an editor of Windows saves it')
})

t.test('what a certificate says of its key is told', async (t) => {
  for (const [made, algorithm, size] of [
    [rsa, 'RSA', 2048],
    [ec, 'EC', 256],
    [ed25519, 'Ed25519', 256],
    [pss, 'RSA', 2048],
  ] as const) {
    const { certificates, keys } = parse(made.certificate, { privateKey: pkcs8Of(made) })
    t.match(certificates[0]?.facts, { key_algorithm: algorithm, key_size: size })
    t.match(keys[0], { algorithm, size })
  }
})

t.test('an encrypted key is opened with its password, whatever encrypts it', async (t) => {
  const password = 'gehëim €'
  for (const name of SEALING_NAMES) {
    const der = sealedKey(pkcs8Of(rsa), password, name)
    t.ok(holdsPair(parse(pem, { privateKey: der, password }), rsa), `${name}, DER`)
    const text = pemOf('ENCRYPTED PRIVATE KEY', der)
    t.ok(holdsPair(parse(pem + text, { password }), rsa), `${name}, PEM`)
    t.match(
      refusalOf(pem, { privateKey: der, password: 'other' }),
      { password: 'does not open the file' },
      name,
    )
    t.match(refusalOf(pem, { privateKey: der }), { password: 'is required to open the file' }, name)
  }
})

t.test('an older PEM key with headers is opened with its password', async (t) => {
  const password = 'geheim'
  for (const cipher of ['aes-128-cbc', 'aes-192-cbc', 'aes-256-cbc', 'des-ede3-cbc']) {
    const text = rsa.privateKey
      .export({ format: 'pem', type: 'pkcs1', cipher, passphrase: password })
      .toString()
    for (const content of [text, text.replaceAll('\n', '\r\n')]) {
      t.ok(holdsPair(parse(pem, { privateKey: content, password }), rsa), cipher)
      t.match(refusalOf(pem, { privateKey: content, password: 'other' }), { password: /does not open/ })
      t.match(refusalOf(pem, { privateKey: content }), { password: /is required/ })
    }
  }
  const ecText = ec.privateKey
    .export({ format: 'pem', type: 'sec1', cipher: 'aes-256-cbc', passphrase: password })
    .toString()
  t.ok(holdsPair(parse(ec.certificatePem, { privateKey: ecText, password }), ec), 'SEC1')
})

t.test('a PKCS#12 file is opened, whatever encrypts it', async (t) => {
  const password = 'gehëim €'
  for (const sealing of SEALING_NAMES) {
    const file = writePkcs12({ certificates: [rsa], keysOf: [rsa], password, sealing })
    t.ok(holdsPair(parse(file, { password }), rsa), sealing)
    t.match(refusalOf(file, { password: 'other' }), { password: 'does not open the file' }, sealing)
    t.match(refusalOf(file), { password: 'is required to open the file' }, sealing)
  }
  for (const algorithm of ['aes128', 'aes256', '3des'] as const) {
    t.ok(holdsPair(parse(makePkcs12(rsa, 'secret', algorithm), { password: 'secret' }), rsa), algorithm)
  }
  for (const made of [ec, ed25519, pss]) {
    const sealing = 'AES-256, PBKDF2 with SHA-256'
    const file = writePkcs12({ certificates: [made], keysOf: [made], password, sealing })
    t.ok(holdsPair(parse(file, { password }), made), made.keyType)
  }
})

t.test('a PKCS#12 file is held against its MAC, where it has one', async (t) => {
  for (const mac of ['sha1', 'sha256', 'sha512', 'pbmac1'] as const) {
    const file = writePkcs12({ certificates: [ec], keysOf: [ec], password: 'secret', mac })
    t.ok(holdsPair(parse(file, { password: 'secret' }), ec), mac)
    t.match(refusalOf(file, { password: 'other' }), { password: 'does not open the file' }, mac)
    t.match(refusalOf(file), { password: 'is required to open the file' }, mac)
  }
  for (const sealing of SEALING_NAMES) {
    const file = writePkcs12({ certificates: [ec], keysOf: [ec], password: 'secret', sealing, mac: 'none' })
    t.ok(holdsPair(parse(file, { password: 'secret' }), ec), `no MAC, ${sealing}`)
    t.match(refusalOf(file, { password: 'other' }), { password: 'does not open the file' }, sealing)
  }
})

t.test('a PKCS#12 file with an empty password or none is opened without one', async (t) => {
  const files = {
    'nothing is protected': writePkcs12({ certificates: [ec], keysOf: [ec], password: '', mac: 'none' }),
    'an empty password': writePkcs12({
      certificates: [ec],
      keysOf: [ec],
      password: '',
      sealing: 'AES-256, PBKDF2 with SHA-256',
    }),
    'an empty password, old algorithms': writePkcs12({
      certificates: [ec],
      keysOf: [ec],
      password: '',
      sealing: 'PKCS#12 with RC2 of 40 bits',
      mac: 'sha1',
    }),
    'an empty password without end mark': writePkcs12({
      certificates: [ec],
      keysOf: [ec],
      password: '',
      mac: 'unmarked',
    }),
  }
  for (const [name, file] of Object.entries(files)) t.ok(holdsPair(parse(file), ec), name)
})

t.test('files that are taken for one of ours are told what they are', async (t) => {
  const start = (...octets: number[]): Buffer => Buffer.concat([Buffer.from(octets), Buffer.alloc(200, 1)])
  t.match(refusalOf(start(0xfe, 0xed, 0xfe, 0xed)), { certificate: /Java keystore/ })
  t.match(refusalOf(start(0x50, 0x4b, 0x03, 0x04)), { certificate: /ZIP archive/ })
  const publicKey = createPrivateKey(rsa.privateKeyPem).export({ format: 'jwk' })
  t.match(refusalOf(JSON.stringify(publicKey)), {
    certificate: /no certificate in a supported format/,
  })
  const spki = rsa.publicKey.export({ format: 'der', type: 'spki' })
  t.match(refusalOf(spki), { certificate: /neither a certificate nor a private key.*public key/ })
  t.match(refusalOf(rsa.certificate, { privateKey: spki }), { private_key: /no private key.*public key/ })
  t.match(refusalOf(pem, { privateKey: pem }), { private_key: 'the file holds no private key' })
})
