import type { KeyObject, X509Certificate } from 'node:crypto'
import { extensionsOf, type CertificateExtension } from './extensions.ts'

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

/** The message says why a certificate or key cannot be used. */
export class UnusableError extends Error {
  override readonly name = 'UnusableError'
}

const LARGEST_RSA_BITS = 16_384
const LONGEST_NAME = 4000

export function factsOf(certificate: X509Certificate): CertificateFacts {
  const { algorithm, size } = keyFacts(certificate.publicKey)
  const not_before = certificate.validFromDate
  const not_after = certificate.validToDate
  if (Number.isNaN(not_before.getTime()) || Number.isNaN(not_after.getTime())) {
    throw new UnusableError('its validity has no dates that can be read')
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

/** Algorithm and size in bits of a public or private key; throws an UnusableError for one that we do not take. */
export function keyFacts(key: KeyObject): { readonly algorithm: KeyAlgorithm; readonly size: number } {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  if (type === 'rsa' || type === 'rsa-pss') {
    const size = details?.modulusLength ?? 0
    if (size > LARGEST_RSA_BITS) throw new UnusableError(`its RSA key of ${size} bits is too large`)
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
  return (name ?? '').trim().replaceAll('\n', ', ').slice(0, LONGEST_NAME)
}

/** The last common name is the most specific one. RFC 4514 §2.4 says what is escaped. */
function commonName(subject: string | undefined): string {
  const lines = (subject ?? '').split('\n')
  const line = lines.findLast((each) => each.startsWith('CN='))
  return (line ?? '')
    .slice(3)
    .replaceAll(/\\([,+"\\<>;=# ])/g, '$1')
    .slice(0, LONGEST_NAME)
}
