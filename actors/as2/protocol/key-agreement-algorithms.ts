/** What key agreement over elliptic curves is made of (RFC 5753): curves, key derivations and key wraps. */
import { CIPHERS } from './algorithms.ts'
import type { CipherName } from './algorithms.ts'

/**
 * The curves that count, by their names in node:crypto. Each is of prime order, so that cofactor Diffie-Hellman is the
 * same as the ordinary one. Shorter curves and those over binary fields are left out.
 */
export const CURVES = {
  secp224r1: { oid: '1.3.132.0.33', bits: 224 },
  prime256v1: { oid: '1.2.840.10045.3.1.7', bits: 256 },
  secp256k1: { oid: '1.3.132.0.10', bits: 256 },
  secp384r1: { oid: '1.3.132.0.34', bits: 384 },
  secp521r1: { oid: '1.3.132.0.35', bits: 521 },
  brainpoolP256r1: { oid: '1.3.36.3.3.2.8.1.1.7', bits: 256 },
  brainpoolP320r1: { oid: '1.3.36.3.3.2.8.1.1.9', bits: 320 },
  brainpoolP384r1: { oid: '1.3.36.3.3.2.8.1.1.11', bits: 384 },
  brainpoolP512r1: { oid: '1.3.36.3.3.2.8.1.1.13', bits: 512 },
} as const satisfies Record<string, { oid: string; bits: number }>

export type CurveName = keyof typeof CURVES

export function isCurve(name: string | undefined): name is CurveName {
  return name !== undefined && Object.hasOwn(CURVES, name)
}

export const EC_PUBLIC_KEY_OID = '1.2.840.10045.2.1'

/** The digests of the X9.63 key derivation, in node:crypto, by the last arc of their scheme (RFC 5753 §7.1.4). */
const DERIVATION_DIGESTS = ['sha224', 'sha256', 'sha384', 'sha512'] as const

export type DerivationDigest = 'sha1' | (typeof DERIVATION_DIGESTS)[number]

const STANDARD = '1.3.132.1.11'
const COFACTOR = '1.3.132.1.14'

const derivationByOid = new Map<string, DerivationDigest>([
  ['1.3.133.16.840.63.0.2', 'sha1'],
  ['1.3.133.16.840.63.0.3', 'sha1'],
  ...DERIVATION_DIGESTS.flatMap((digest, arc) =>
    [STANDARD, COFACTOR].map((scheme) => [`${scheme}.${arc}`, digest] as const),
  ),
])

/** The digest of a scheme dhSinglePass-stdDH or -cofactorDH, or null for any other. */
export function derivationOfOid(oid: string): DerivationDigest | null {
  return derivationByOid.get(oid) ?? null
}

/** The identifier of dhSinglePass-stdDH with a digest that we write. */
export function derivationOid(digest: Exclude<DerivationDigest, 'sha1'>): string {
  return `${STANDARD}.${DERIVATION_DIGESTS.indexOf(digest)}`
}

interface WrapFacts {
  /** RFC 3565 §4.2, RFC 3370 §4.3.1. */
  readonly oid: string
  /** The name in node:crypto. */
  readonly node: string
  readonly keyBytes: number
  /** The initial value of RFC 3394 §2.2.3.1; 3DES takes none from outside. */
  readonly iv: Buffer | null
}

const AES_IV = Buffer.alloc(8, 0xa6)

export const KEY_WRAPS = {
  AES128: { oid: '2.16.840.1.101.3.4.1.5', node: 'aes128-wrap', keyBytes: 16, iv: AES_IV },
  AES192: { oid: '2.16.840.1.101.3.4.1.25', node: 'aes192-wrap', keyBytes: 24, iv: AES_IV },
  AES256: { oid: '2.16.840.1.101.3.4.1.45', node: 'aes256-wrap', keyBytes: 32, iv: AES_IV },
  '3DES': { oid: '1.2.840.113549.1.9.16.3.6', node: 'des3-wrap', keyBytes: 24, iv: null },
} as const satisfies Record<string, WrapFacts>

export type KeyWrap = keyof typeof KEY_WRAPS

const wrapByOid = new Map<string, KeyWrap>(
  Object.entries(KEY_WRAPS).map(([name, { oid }]) => [oid, name as KeyWrap]),
)

export function keyWrapOfOid(oid: string): KeyWrap | null {
  return wrapByOid.get(oid) ?? null
}

/** The derivation and the wrap that we write: as strong as the cipher of the content (RFC 5753 §8). */
export function agreementFor(cipher: CipherName): {
  readonly derivation: Exclude<DerivationDigest, 'sha1'>
  readonly wrap: KeyWrap
} {
  const { keyBytes } = CIPHERS[cipher]
  // The key of 3DES has 24 bytes, and the strength of 112 bits.
  if (cipher === '3DES' || keyBytes === 16) return { derivation: 'sha256', wrap: 'AES128' }
  return keyBytes === 24 ? { derivation: 'sha384', wrap: 'AES192' } : { derivation: 'sha512', wrap: 'AES256' }
}
