import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeCertificate } from '../support/certificates.ts'
import { holdsCertificates, holdsPair, parse, refusalOf } from '../storage/certificates/reading/reading.ts'

/** Files of certificates and keys as OpenSSL and Java write them. */

const made = makeCertificate({ commonName: 'parsed' })
const ec = makeCertificate({ commonName: 'parsed ec', keyType: 'ec' })
const password = 'geheim'

/** Old algorithms are in a provider of their own, which has to be asked for. */
const LEGACY = ['-provider', 'legacy', '-provider', 'default']

function workbench(t: Tap) {
  const directory = t.testdir({
    'key.pem': made.privateKeyPem,
    'certificate.pem': made.certificatePem,
    'ec.pem': ec.certificatePem,
    'ec-key.pem': ec.privateKeyPem,
  })
  const at = (name: string): string => join(directory, name)
  const run = (program: string, ...options: string[]): void => {
    execFileSync(program, options, { stdio: 'pipe' })
  }
  const openssl = (...options: string[]): Buffer => {
    run('openssl', ...options, '-out', at('out'))
    return readFileSync(at('out'))
  }
  const pkcs12 = (secret: string, ...options: string[]): Buffer => {
    const pair = ['-inkey', at('key.pem'), '-in', at('certificate.pem')]
    return openssl('pkcs12', '-export', ...pair, '-passout', `pass:${secret}`, ...options)
  }
  return { at, run, openssl, pkcs12 }
}

const pbe = (key: string, certificate: string) => ['-keypbe', key, '-certpbe', certificate]

interface Tap {
  readonly testdir: (files: Record<string, string>) => string
}

t.test('PKCS#12 files of OpenSSL are read', async (t) => {
  const { pkcs12 } = workbench(t)
  const files: Record<string, readonly [string, ...string[]]> = {
    'today’s algorithms': [password],
    'RC2 and triple DES': [password, '-legacy'],
    'two-key triple DES and RC2-128': [password, ...pbe('PBE-SHA1-2DES', 'PBE-SHA1-RC2-128'), '-legacy'],
    RC4: [password, ...pbe('PBE-SHA1-RC4-128', 'PBE-SHA1-RC4-40'), '-legacy'],
    'AES-128 and many iterations': [
      password,
      '-keypbe',
      'AES-128-CBC',
      '-certpbe',
      'AES-192-CBC',
      '-iter',
      '20000',
    ],
    'a password that is no ASCII': ['gehëim€'],
    'an empty password': [''],
    'an empty password, old algorithms': ['', '-legacy'],
    'no MAC': [password, '-nomac'],
    'SHA-512, nothing encrypted': [password, '-macalg', 'sha512', ...pbe('NONE', 'NONE')],
    'SHA-1': [password, '-macalg', 'sha1'],
  }
  for (const [name, [secret, ...options]] of Object.entries(files)) {
    const file = pkcs12(secret, ...options)
    t.ok(holdsPair(parse(file, { password: secret }), made), name)
    t.match(refusalOf(file, { password: 'falsch' }), { password: /does not open/ }, name)
  }
  t.match(refusalOf(pkcs12(password)), { password: /is required/ })
})

t.test('a PKCS#12 file of OpenSSL with a chain is read', async (t) => {
  const { pkcs12, at } = workbench(t)
  const { certificates, keys } = parse(pkcs12(password, '-certfile', at('ec.pem')), { password })
  t.match(
    certificates.map(({ facts, keyIndex }) => [facts.common_name, keyIndex]),
    [
      ['parsed', 0],
      ['parsed ec', null],
    ],
  )
  t.equal(keys.length, 1)
})

t.test('PKCS#7 files of OpenSSL are read', async (t) => {
  const { openssl, at } = workbench(t)
  for (const form of ['PEM', 'DER']) {
    const files = ['-certfile', at('certificate.pem'), '-certfile', at('ec.pem')]
    const file = openssl('crl2pkcs7', '-nocrl', ...files, '-outform', form)
    t.ok(holdsCertificates(parse(file), [made, ec]), form)
  }
})

t.test('certificates of OpenSSL are read', async (t) => {
  const { openssl, at } = workbench(t)
  const x509 = (...options: string[]) => openssl('x509', '-in', at('certificate.pem'), ...options)
  t.ok(holdsCertificates(parse(x509('-text')), [made]), 'with its text before')
  t.ok(holdsCertificates(parse(x509('-outform', 'DER')), [made]), 'DER')
  t.ok(holdsCertificates(parse(x509('-trustout', '-addtrust', 'serverAuth')), [made]), 'with trust')
})

t.test('encrypted keys of OpenSSL are read', async (t) => {
  const { openssl, at } = workbench(t)
  const schemes = [
    ['-v2', 'aes-256-cbc', '-v2prf', 'hmacWithSHA512'],
    ['-v2', 'aes-128-cbc', '-v2prf', 'hmacWithSHA1'],
    ['-v2', 'aes-192-cbc', '-v2prf', 'hmacWithSHA384'],
    ['-v2', 'aes-256-cbc', '-v2prf', 'hmacWithSHA224'],
    ['-v2', 'aes-256-cbc', '-v2prf', 'hmacWithSHA512-256'],
    ['-v2', 'camellia-256-cbc'],
    ['-v2', 'des3'],
    ['-v2', 'des', ...LEGACY],
    ['-scrypt'],
    ['-v1', 'PBE-SHA1-3DES'],
    ['-v1', 'PBE-SHA1-RC2-40', ...LEGACY],
    ['-v1', 'PBE-SHA1-RC4-128', ...LEGACY],
    ['-v1', 'PBE-MD5-DES', ...LEGACY],
    ['-v1', 'PBE-SHA1-DES', ...LEGACY],
    ['-v1', 'PBE-MD5-RC2-64', ...LEGACY],
    ['-v1', 'PBE-SHA1-RC2-64', ...LEGACY],
  ]
  for (const scheme of schemes) {
    const name = scheme.slice(0, 4).join(' ')
    for (const form of ['PEM', 'DER']) {
      const key = ['pkcs8', '-topk8', '-in', at('key.pem'), '-outform', form, '-passout', `pass:${password}`]
      const privateKey = openssl(...key, ...scheme)
      t.ok(holdsPair(parse(made.certificate, { privateKey, password }), made), `${name}, ${form}`)
      t.match(refusalOf(made.certificate, { privateKey, password: 'falsch' }), { password: /does not open/ })
    }
  }
})

t.test('older keys of OpenSSL are read', async (t) => {
  const { openssl, at } = workbench(t)
  const pass = ['-passout', `pass:${password}`, ...LEGACY]
  for (const cipher of ['-aes128', '-aes192', '-aes256', '-des3', '-des']) {
    const rsaKey = openssl('rsa', '-in', at('key.pem'), '-traditional', cipher, ...pass)
    t.ok(holdsPair(parse(made.certificatePem, { privateKey: rsaKey, password }), made), `RSA ${cipher}`)
    const ecKey = openssl('ec', '-in', at('ec-key.pem'), cipher, ...pass)
    t.ok(holdsPair(parse(ec.certificatePem, { privateKey: ecKey, password }), ec), `EC ${cipher}`)
  }
  const plain = openssl('ec', '-in', at('ec-key.pem'), '-param_enc', 'named_curve')
  t.ok(holdsPair(parse(ec.certificatePem, { privateKey: plain }), ec), 'SEC1')
})

/** Java is not needed to build the product; where it is, its files are read. */
const keytool = ((): string | null => {
  try {
    execFileSync('keytool', ['-help'], { stdio: 'ignore' })
    return 'keytool'
  } catch {
    return null
  }
})()

t.test('PKCS#12 files of Java are read, where it is installed', async (t) => {
  const { pkcs12, at, run } = workbench(t)
  t.ok(holdsPair(parse(pkcs12(password), { password }), made), 'the file that Java converts')
  if (keytool === null) return
  const source = ['-srckeystore', at('out'), '-srcstoretype', 'PKCS12', '-srcstorepass', password]
  const importing = (name: string, type: string, ...options: string[]) => {
    const target = ['-destkeystore', at(name), '-deststoretype', type, '-deststorepass', password]
    run(keytool, ...options, '-importkeystore', ...source, ...target)
    return readFileSync(at(name))
  }
  t.ok(holdsPair(parse(importing('new.p12', 'PKCS12'), { password }), made), 'today’s algorithms')
  const legacy = '-J-Dkeystore.pkcs12.legacy'
  t.ok(holdsPair(parse(importing('old.p12', 'PKCS12', legacy), { password }), made), 'RC2 and triple DES')
  t.match(refusalOf(importing('store.jks', 'JKS'), { password }), { certificate: /Java keystore/ })
  const trusted = ['-file', at('ec.pem'), '-alias', 'partner', '-noprompt']
  run(keytool, '-importcert', ...trusted, '-keystore', at('trust.p12'), '-storepass', password)
  t.ok(holdsCertificates(parse(readFileSync(at('trust.p12')), { password }), [ec]), 'a truststore')
})
