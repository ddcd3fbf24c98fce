import type { CertificateFacts, KeyAlgorithm } from './facts.ts'

/** What an upload holds, as plain values: it crosses from the thread that reads. */

export interface FoundCertificate {
  readonly der: Uint8Array
  readonly facts: CertificateFacts
  /** Index among the keys of the one that belongs to it, or null. */
  readonly keyIndex: number | null
}

export interface FoundKey {
  /** PKCS#8 DER, not encrypted. */
  readonly pkcs8: Uint8Array
  readonly algorithm: KeyAlgorithm
  /** Bits. */
  readonly size: number
  /** Index of the first certificate that it belongs to, or null. */
  readonly certificateIndex: number | null
}

export interface FoundMaterial {
  /** Each certificate once, in the order of the files. */
  readonly certificates: readonly FoundCertificate[]
  /** Each key once. */
  readonly keys: readonly FoundKey[]
  /** Sentences for people: what was left out and why, and what belongs to nothing. */
  readonly notes: readonly string[]
  /** Whether there was a certificate or a key that is not among these, because it cannot be used. */
  readonly leftOut: boolean
}

/** The certificate that the upload holds when it holds no other, and no key but its own. Null otherwise. */
export function singleOf(material: FoundMaterial): FoundCertificate | null {
  const { certificates, keys, leftOut } = material
  const [certificate] = certificates
  if (certificate === undefined || certificates.length > 1 || leftOut) return null
  return keys.length === (certificate.keyIndex === null ? 0 : 1) ? certificate : null
}

/** The key that is paired with a certificate, as PKCS#8 DER, or null. */
export function keyOf(material: FoundMaterial, certificate: FoundCertificate): Uint8Array | null {
  return certificate.keyIndex === null ? null : (material.keys[certificate.keyIndex]?.pkcs8 ?? null)
}
