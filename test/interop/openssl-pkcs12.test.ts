import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { WaybillError } from '../../runtime/errors.ts'
import { parseUpload, type FoundMaterial } from '../../storage/certificates/parse.ts'
import { makeCertificate } from '../support/certificates.ts'

const made = makeCertificate({ commonName: 'parsed' })
const pkcs8 = made.privateKey.export({ format: 'der', type: 'pkcs8' })

function parse(certificate: Buffer, password: string, privateKey?: Buffer): FoundMaterial {
  return parseUpload({ certificate, privateKey, password })
}

const holdsPair = (found: FoundMaterial): boolean =>
  found.certificates.length === 1 &&
  found.certificates[0]?.keyIndex === 0 &&
  found.certificates[0].der.equals(made.certificate) &&
  found.keys[0]?.pkcs8.equals(pkcs8) === true

function refusalOf(action: () => unknown): object {
  try {
    action()
  } catch (thrown) {
    if (thrown instanceof WaybillError) return thrown.details ?? {}
  }
  return {}
}

t.test('PKCS#12 files as openssl makes them are read', async (t) => {
  const directory = t.testdir({ 'key.pem': made.privateKeyPem, 'certificate.pem': made.certificatePem })
  const exported = (...options: string[]): Buffer => {
    const out = join(directory, 'out.p12')
    execFileSync(
      'openssl',
      [
        'pkcs12',
        '-export',
        '-inkey',
        join(directory, 'key.pem'),
        '-in',
        join(directory, 'certificate.pem'),
        '-out',
        out,
        ...options,
      ],
      { stdio: 'pipe' },
    )
    return readFileSync(out)
  }
  t.ok(holdsPair(parse(exported('-passout', 'pass:geheim'), 'geheim')), 'today’s algorithms')
  t.ok(holdsPair(parse(exported('-passout', 'pass:geheim', '-legacy'), 'geheim')), 'RC2 and triple DES')
  t.ok(
    holdsPair(
      parse(
        exported(
          '-passout',
          'pass:geheim',
          '-keypbe',
          'PBE-SHA1-2DES',
          '-certpbe',
          'PBE-SHA1-RC2-128',
          '-legacy',
        ),
        'geheim',
      ),
    ),
    'two-key triple DES and RC2-128',
  )
  t.ok(holdsPair(parse(exported('-passout', 'pass:'), '')), 'an empty password')
  t.ok(holdsPair(parse(exported('-passout', 'pass:', '-legacy'), '')), 'an empty password, old algorithms')
  t.ok(holdsPair(parse(exported('-passout', 'pass:x', '-nomac'), 'x')), 'no MAC')
  t.ok(
    holdsPair(
      parse(exported('-passout', 'pass:x', '-macalg', 'sha512', '-keypbe', 'NONE', '-certpbe', 'NONE'), 'x'),
    ),
    'SHA-512, nothing encrypted',
  )
  const key = join(directory, 'scrypt.der')
  execFileSync(
    'openssl',
    [
      'pkcs8',
      '-topk8',
      '-scrypt',
      '-in',
      join(directory, 'key.pem'),
      '-outform',
      'DER',
      '-out',
      key,
      '-passout',
      'pass:geheim',
    ],
    { stdio: 'pipe' },
  )
  t.ok(holdsPair(parse(made.certificate, 'geheim', readFileSync(key))), 'a key with scrypt')
  t.match(
    refusalOf(() => parse(made.certificate, 'falsch', readFileSync(key))),
    { password: /does not open/ },
  )
})
