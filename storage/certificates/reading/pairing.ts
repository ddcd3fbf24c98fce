import { sign, verify, type KeyObject, type X509Certificate } from 'node:crypto'
import type { Pieces } from './pieces.ts'

/** Which private key belongs to which certificate. */
export interface Pairs {
  /** By certificate: the index of its key, or null. */
  readonly keyOfCertificate: readonly (number | null)[]
  /** By key: the index of its first certificate, or null. */
  readonly certificateOfKey: readonly (number | null)[]
}

export function pairsOf({ certificates, keys }: Pieces): Pairs {
  const works = new Map<KeyObject, boolean>()
  const keyOfCertificate = certificates.map(({ x509 }) => {
    const at = keys.findIndex((key) => {
      if (!x509.checkPrivateKey(key)) return false
      // A renewed certificate may have the same key: it is tried once.
      const known = works.get(key) ?? signsFor(key, x509)
      works.set(key, known)
      return known
    })
    return at === -1 ? null : at
  })
  const certificateOfKey = keys.map((_, at) => {
    const found = keyOfCertificate.indexOf(at)
    return found === -1 ? null : found
  })
  return { keyOfCertificate, certificateOfKey }
}

const PROBE = Buffer.from('waybill proves that a private key belongs to its certificate')

/**
 * Whether what the key signs is verified with the certificate. A key whose secret part is damaged has the right
 * public part, and would be found out by the partner.
 */
function signsFor(key: KeyObject, certificate: X509Certificate): boolean {
  const digest = digestOf(key)
  try {
    return verify(digest, PROBE, certificate.publicKey, sign(digest, PROBE, key))
  } catch {
    return false
  }
}

/** Ed25519 has a digest of its own; an RSA-PSS key may name the one that it is bound to. */
function digestOf(key: KeyObject): string | null {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  if (type === 'ed25519') return null
  return type === 'rsa-pss' ? (details?.hashAlgorithm ?? 'sha256') : 'sha256'
}
