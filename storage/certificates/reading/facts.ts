import type { KeyObject, X509Certificate } from 'node:crypto'
import { extensionsOf, type CertificateExtension } from './extensions.ts'
import { UnusableError } from './refusal.ts'

/** What a certificate says of itself, as it is stored beside it. */
export interface CertificateFacts {
  /** Empty when the subject has none. */
  readonly common_name: string
  /** Most significant part first, such as `C=DE, O=Acme, CN=edi`. */
  readonly subject: string
  readonly issuer: string
  /** Lower case hex, as the fingerprints are. */
  readonly serial_number: string
  readonly not_before: Date
  readonly not_after: Date
  readonly fingerprint_sha256: string
  readonly fingerprint_sha1: string
  readonly key_algorithm: KeyAlgorithm
  /** Bits. */
  readonly key_size: number
  readonly signature_algorithm: string
  readonly is_ca: boolean
  readonly extensions: readonly CertificateExtension[]
}

export const KEY_ALGORITHMS = ['RSA', 'EC', 'Ed25519'] as const
export type KeyAlgorithm = (typeof KEY_ALGORITHMS)[number]

const SMALLEST_RSA_BITS = 512
/** What more bits cost, every signature pays: one of 16,384 takes over a second. */
const LARGEST_RSA_BITS = 8192
/** Larger ones make verifying slow, and OpenSSL refuses them for larger keys. */
const LARGEST_EXPONENT = 2n ** 64n
/** RFC 5280 §4.1.2.2 allows 20; the field has more. */
const LARGEST_SERIAL_BYTES = 64
const EARLIEST = Date.UTC(1900, 0, 1)
const LATEST = Date.UTC(10_000, 0, 1) - 1
const LONGEST_NAME = 4000

export function factsOf(certificate: X509Certificate): CertificateFacts {
  const { algorithm, size } = keyFacts(certificate.publicKey)
  const not_before = certificate.validFromDate
  const not_after = certificate.validToDate
  refuseOddValidity(not_before, not_after)
  refuseNul(certificate.subject, certificate.issuer)
  if (certificate.serialNumber.length > 2 * LARGEST_SERIAL_BYTES) {
    throw new UnusableError(`its serial number has more than ${LARGEST_SERIAL_BYTES} bytes`)
  }
  return {
    common_name: commonName(certificate.subject),
    subject: oneLine(certificate.subject),
    issuer: oneLine(certificate.issuer),
    serial_number: certificate.serialNumber.toLowerCase(),
    not_before,
    not_after,
    fingerprint_sha256: hexOf(certificate.fingerprint256),
    fingerprint_sha1: hexOf(certificate.fingerprint),
    key_algorithm: algorithm,
    key_size: size,
    signature_algorithm: certificate.signatureAlgorithm ?? certificate.signatureAlgorithmOid,
    is_ca: certificate.ca,
    extensions: extensionsOf(certificate),
  }
}

function refuseOddValidity(notBefore: Date, notAfter: Date): void {
  for (const date of [notBefore, notAfter]) {
    // The time of a Date that could not be read is not a number, which is in no range.
    if (!(date.getTime() >= EARLIEST && date.getTime() <= LATEST)) {
      throw new UnusableError('its validity has a date that cannot be read, or one before 1900')
    }
  }
  if (notAfter < notBefore) throw new UnusableError('its validity ends before it begins')
}

/** A name that ends for one program at the NUL and for another behind it names two parties. */
function refuseNul(...names: readonly (string | undefined)[]): void {
  // Node.js escapes the character as `\00`, and a backslash as two.
  if (names.some((name) => /(?<!\\)(?:\\\\)*\\00/.test(name ?? ''))) {
    throw new UnusableError('a name in it has the character NUL')
  }
}

/** Algorithm and size in bits of a public or private key; throws an UnusableError for one that we do not take. */
export function keyFacts(key: KeyObject): { readonly algorithm: KeyAlgorithm; readonly size: number } {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  if (type === 'rsa' || type === 'rsa-pss') {
    const size = details?.modulusLength ?? 0
    if (size > LARGEST_RSA_BITS || size < SMALLEST_RSA_BITS) {
      throw new UnusableError(
        `its RSA key of ${size} bits is not of ${SMALLEST_RSA_BITS} to ${LARGEST_RSA_BITS} bits`,
      )
    }
    const exponent = details?.publicExponent ?? 0n
    if (exponent < 3n || exponent > LARGEST_EXPONENT || exponent % 2n === 0n) {
      throw new UnusableError('its RSA key has a public exponent that is not sound')
    }
    return { algorithm: 'RSA', size }
  }
  if (type === 'ec') return { algorithm: 'EC', size: curveBits(details?.namedCurve) }
  if (type === 'ed25519') return { algorithm: 'Ed25519', size: 256 }
  throw new UnusableError(`its key algorithm ${type ?? ''} is not supported`)
}

/** The first number of a curve's name is its size: `prime256v1`, `secp384r1`, `brainpoolP512r1`. */
function curveBits(curve: string | undefined): number {
  const bits = /\d+/.exec(curve ?? '')?.[0]
  if (bits === undefined) throw new UnusableError('its elliptic curve has no name')
  return Number(bits)
}

function hexOf(fingerprint: string): string {
  return fingerprint.replaceAll(':', '').toLowerCase()
}

/** Node gives one line a name part; control characters in a value arrive escaped. */
function oneLine(name: string | undefined): string {
  return (name ?? '').trim().replaceAll('\n', ', ').slice(0, LONGEST_NAME).toWellFormed()
}

/**
 * The last common name is the most specific one. Parts of one level stand on one line, with ` + ` between them; RFC
 * 4514 §2.4 says what is escaped.
 */
function commonName(subject: string | undefined): string {
  const parts = (subject ?? '').split(/\n| \+ /)
  const part = parts.findLast((each) => each.startsWith('CN='))
  return (part ?? '')
    .slice(3)
    .replaceAll(/\\([,+"\\<>;=# ])/g, '$1')
    .slice(0, LONGEST_NAME)
    .toWellFormed()
}
