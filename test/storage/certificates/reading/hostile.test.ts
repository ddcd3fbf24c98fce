import fc from 'fast-check'
import t from 'tap'
import { WaybillError } from '../../../../runtime/errors.ts'
import type { CertificateFacts } from '../../../../storage/certificates/reading/facts.ts'
import { parseUpload } from '../../../../storage/certificates/reading/parse.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { hostileUploads } from '../../../support/hostile-uploads.ts'
import { sealedKey, SEALING_NAMES } from '../../../support/password-sealing.ts'
import { pemOf } from '../../../support/pem.ts'
import { writePkcs12 } from '../../../support/pkcs12.ts'
import { writeBerPkcs7, writePkcs7 } from '../../../support/pkcs7.ts'
import { holdsPair, parse, refusalOf } from './reading.ts'

t.test('a hostile file is refused on the field that it came in', async (t) => {
  for (const { name, certificate, privateKey, password = '', refusal } of hostileUploads(20 * 1024 * 1024)) {
    const others = privateKey === undefined ? { password } : { password, privateKey }
    const details = refusalOf(certificate, others)
    t.same(Object.keys(details), Object.keys(refusal), name)
    t.match(details, refusal, name)
  }
})

const ec = makeCertificate({ commonName: 'sound', keyType: 'ec' })
const ed25519 = makeCertificate({ commonName: 'other', keyType: 'ed25519' })
const pkcs8 = ec.privateKey.export({ format: 'der', type: 'pkcs8' })
const password = 'x'

/** True for material that can be stored and for a validation failure; whatever else is thrown is a defect. */
function isAnswered(certificate: Uint8Array, privateKey?: Uint8Array): boolean {
  try {
    const { certificates } = parseUpload({ certificate, privateKey, password })
    return certificates.every(({ facts }) => isStorable(facts))
  } catch (thrown) {
    if (thrown instanceof WaybillError && thrown.code === 'INVALID_INPUT') return true
    throw thrown
  }
}

/** PostgreSQL has no NUL in text, no half characters, and other dates than JavaScript before our era. */
function isStorable(facts: CertificateFacts): boolean {
  const texts = JSON.stringify(facts)
  return (
    texts.isWellFormed() && !/\\u(?:0000|d[89a-f])/.test(texts) && facts.not_before.getUTCFullYear() >= 1900
  )
}

const SOUND = [
  ec.certificate,
  pkcs8,
  Buffer.from(ec.certificatePem + ec.privateKeyPem),
  writePkcs7([ec, ed25519]),
  writeBerPkcs7([ec, ed25519]),
  writePkcs12({ certificates: [ec], keysOf: [ec], password, sealing: 'AES-256, PBKDF2 with SHA-256' }),
  writePkcs12({ certificates: [ec], keysOf: [ec], password, mac: 'none' }),
  writePkcs12({ certificates: [ec], password, sealing: 'PKCS#12 with RC2 of 40 bits', mac: 'none' }),
  writePkcs12({ certificates: [ec], password, mac: 'pbmac1' }),
  ...SEALING_NAMES.map((name) => sealedKey(pkcs8, password, name)),
]

t.test('whatever bytes come, the answer is material or a validation failure', async () => {
  const bytes = fc.uint8Array({ maxLength: 400 })
  fc.assert(fc.property(bytes, (each) => isAnswered(each)))
  fc.assert(fc.property(bytes, (each) => isAnswered(ec.certificate, each)))
  const label = fc.constantFrom(
    'CERTIFICATE',
    'PRIVATE KEY',
    'ENCRYPTED PRIVATE KEY',
    'RSA PRIVATE KEY',
    'PKCS7',
  )
  fc.assert(fc.property(label, bytes, (name, each) => isAnswered(Buffer.from(pemOf(name, each)))))
  const pieces = fc.array(
    fc.constantFrom('-----BEGIN ', '-----END ', 'CERTIFICATE', '-----', '\n', 'MIIB', 'a: b', '=', ' ', '\0'),
    { maxLength: 30 },
  )
  fc.assert(fc.property(pieces, (list) => isAnswered(Buffer.from(list.join('')))))
})

t.test('so it is for a sound file of which some bytes were changed, cut off or doubled', async () => {
  const places = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { minLength: 1, maxLength: 4 })
  for (const original of SOUND) {
    fc.assert(
      fc.property(places, (list) => {
        const changed = Buffer.from(original)
        for (const [at, octet] of list) changed[at % changed.length] = octet
        return isAnswered(changed) && isAnswered(ec.certificate, changed)
      }),
      { numRuns: 40 },
    )
    fc.assert(
      fc.property(fc.nat({ max: original.length }), fc.nat({ max: original.length }), (from, to) => {
        const cut = Buffer.concat([original.subarray(0, from), original.subarray(to)])
        return isAnswered(cut)
      }),
      { numRuns: 40 },
    )
  }
})

t.test('what is written is read back, whatever the password', async () => {
  // Of the basic plane: PKCS#12 has UTF-16, and its writer here no pairs.
  const text = fc.string({
    unit: fc.integer({ min: 1, max: 0xd7ff }).map((code) => String.fromCharCode(code)),
  })
  const passwords = text.filter((each) => each !== '')
  const sealings = fc.constantFrom(...SEALING_NAMES)
  const macs = fc.constantFrom('none', 'sha1', 'sha256', 'sha512', 'pbmac1')
  fc.assert(
    fc.property(passwords, sealings, macs, (secret, sealing, mac) => {
      const file = writePkcs12({ certificates: [ec], keysOf: [ec], password: secret, sealing, mac })
      return holdsPair(parse(file, { password: secret }), ec)
    }),
    { numRuns: 60 },
  )
  const layouts = fc.array(fc.constantFrom('\r\n', '\n', ' text \n', '\n\n'), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(layouts, fc.boolean(), (between, keyFirst) => {
      const blocks = keyFirst ? [ec.privateKeyPem, ec.certificatePem] : [ec.certificatePem, ec.privateKeyPem]
      const joined = blocks.map((block, at) => block + (between[at] ?? '')).join(between.join(''))
      return holdsPair(parse(joined), ec)
    }),
  )
})
