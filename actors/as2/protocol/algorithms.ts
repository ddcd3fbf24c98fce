/**
 * Every fact about an algorithm stands in these tables and nowhere else: a further algorithm is a further row.
 * The keys are the names that profiles and records use.
 */

interface DigestFacts {
  /** RFC 3370 §2, RFC 5754 §2. */
  readonly oid: string
  /** The name in node:crypto. */
  readonly node: string
  readonly bytes: number
  /** How we write it in `micalg` and in receipts. */
  readonly micalg: string
  /** How others write it: lower case, without separators and without the algorithm of a signature. */
  readonly spellings: readonly string[]
  /** Whether it may stand in a signature; MD5 names a MIC at most. */
  readonly signs: boolean
}

export const DIGESTS = {
  MD5: {
    oid: '1.2.840.113549.2.5',
    node: 'md5',
    bytes: 16,
    micalg: 'md5',
    spellings: ['md5'],
    signs: false,
  },
  SHA1: {
    oid: '1.3.14.3.2.26',
    node: 'sha1',
    bytes: 20,
    // RFC 4130 §7.3 knows it as `sha1` only; its successors accept both spellings.
    micalg: 'sha1',
    spellings: ['sha1', 'sha'],
    signs: true,
  },
  SHA256: {
    oid: '2.16.840.1.101.3.4.2.1',
    node: 'sha256',
    bytes: 32,
    micalg: 'sha-256',
    spellings: ['sha256', 'sha2256'],
    signs: true,
  },
  SHA384: {
    oid: '2.16.840.1.101.3.4.2.2',
    node: 'sha384',
    bytes: 48,
    micalg: 'sha-384',
    spellings: ['sha384', 'sha2384'],
    signs: true,
  },
  SHA512: {
    oid: '2.16.840.1.101.3.4.2.3',
    node: 'sha512',
    bytes: 64,
    micalg: 'sha-512',
    spellings: ['sha512', 'sha2512'],
    signs: true,
  },
} as const satisfies Record<string, DigestFacts>

export type DigestName = keyof typeof DIGESTS
/** The digests that a signature may use. */
export type SigningDigest = Exclude<DigestName, 'MD5'>

/** How a signature is made: RSA with PKCS#1 v1.5 or PSS padding (RFC 8017 §8), or ECDSA (RFC 5753 §2.1). */
export type SignatureScheme = 'PKCS1' | 'PSS' | 'ECDSA'

interface SignatureFacts {
  readonly scheme: SignatureScheme
  /** The digest that the identifier names; null where another field names it. */
  readonly digest: DigestName | null
}

/** By object identifier: what may stand in `signatureAlgorithm` of a SignerInfo. */
const SIGNATURES: Readonly<Record<string, SignatureFacts>> = {
  '1.2.840.113549.1.1.1': { scheme: 'PKCS1', digest: null },
  '1.2.840.113549.1.1.5': { scheme: 'PKCS1', digest: 'SHA1' },
  '1.3.14.3.2.29': { scheme: 'PKCS1', digest: 'SHA1' },
  '1.2.840.113549.1.1.11': { scheme: 'PKCS1', digest: 'SHA256' },
  '1.2.840.113549.1.1.12': { scheme: 'PKCS1', digest: 'SHA384' },
  '1.2.840.113549.1.1.13': { scheme: 'PKCS1', digest: 'SHA512' },
  '1.2.840.113549.1.1.10': { scheme: 'PSS', digest: null },
  // Not a signature algorithm, but some products write it, as they write rsaEncryption for RSA.
  '1.2.840.10045.2.1': { scheme: 'ECDSA', digest: null },
  '1.2.840.10045.4.1': { scheme: 'ECDSA', digest: 'SHA1' },
  '1.2.840.10045.4.3.2': { scheme: 'ECDSA', digest: 'SHA256' },
  '1.2.840.10045.4.3.3': { scheme: 'ECDSA', digest: 'SHA384' },
  '1.2.840.10045.4.3.4': { scheme: 'ECDSA', digest: 'SHA512' },
}

/** The identifier to write for RSA signatures; PKCS#1 goes by rsaEncryption, which every peer knows (RFC 3370 §3.2). */
export const RSA_SIGNATURE_OID = { PKCS1: '1.2.840.113549.1.1.1', PSS: '1.2.840.113549.1.1.10' } as const

/** The identifier to write for ECDSA signatures, by their digest (RFC 5753 §2.1.1, RFC 5754 §3.3). */
export const ECDSA_SIGNATURE_OIDS = {
  SHA1: '1.2.840.10045.4.1',
  SHA256: '1.2.840.10045.4.3.2',
  SHA384: '1.2.840.10045.4.3.3',
  SHA512: '1.2.840.10045.4.3.4',
} as const satisfies Record<SigningDigest, string>

type AesBits = 128 | 192 | 256

interface CbcFacts {
  readonly mode: 'CBC'
  /** RFC 3370 §5.1, RFC 3565 §4.1. */
  readonly oid: string
  /** The name in node:crypto. */
  readonly node: string
  readonly keyBytes: number
  readonly ivBytes: number
}

interface GcmFacts {
  readonly mode: 'GCM'
  /** RFC 5084 §3.2. */
  readonly oid: string
  readonly node: `aes-${AesBits}-gcm`
  readonly keyBytes: number
  readonly ivBytes: number
}

export const CIPHERS = {
  '3DES': { mode: 'CBC', oid: '1.2.840.113549.3.7', node: 'des-ede3-cbc', keyBytes: 24, ivBytes: 8 },
  'AES128-CBC': aesCbc(128, '2.16.840.1.101.3.4.1.2'),
  'AES192-CBC': aesCbc(192, '2.16.840.1.101.3.4.1.22'),
  'AES256-CBC': aesCbc(256, '2.16.840.1.101.3.4.1.42'),
  'AES128-GCM': aesGcm(128, '2.16.840.1.101.3.4.1.6'),
  'AES192-GCM': aesGcm(192, '2.16.840.1.101.3.4.1.26'),
  'AES256-GCM': aesGcm(256, '2.16.840.1.101.3.4.1.46'),
} as const satisfies Record<string, CbcFacts | GcmFacts>

export type CipherName = keyof typeof CIPHERS

function aesCbc(bits: AesBits, oid: string): CbcFacts {
  return { mode: 'CBC', oid, node: `aes-${bits}-cbc`, keyBytes: bits / 8, ivBytes: 16 }
}

function aesGcm(bits: AesBits, oid: string): GcmFacts {
  return { mode: 'GCM', oid, node: `aes-${bits}-gcm`, keyBytes: bits / 8, ivBytes: 12 }
}

/** Bytes of the authentication tag of GCM; RFC 5084 §3.2 allows 12 to 16, we write the longest. */
export const GCM_TAG_BYTES = { written: 16, shortest: 12 } as const

/** How the content key travels: RSA with PKCS#1 v1.5 (RFC 3370 §4.2.1) or OAEP padding (RFC 3560). */
export const KEY_TRANSPORTS = {
  PKCS1: { oid: '1.2.840.113549.1.1.1' },
  OAEP: { oid: '1.2.840.113549.1.1.7' },
} as const

export type KeyTransport = keyof typeof KEY_TRANSPORTS

/** How the content key reached its recipient: by one of these, or by key agreement (RFC 5652 §6.2.2). */
export type KeyManagement = KeyTransport | 'ECDH'

/** The digests of OAEP that we write; others are read. */
export type OaepDigest = 'SHA1' | 'SHA256'

export const MGF1_OID = '1.2.840.113549.1.1.8'
/** ZLIB, the one algorithm of RFC 3274 §2. */
export const ZLIB_OID = '1.2.840.113549.1.9.16.3.8'

const digestByOid = index(DIGESTS)
const cipherByOid = index(CIPHERS)
const transportByOid = index(KEY_TRANSPORTS)
const digestBySpelling = new Map<string, DigestName>()
for (const name of keysOf(DIGESTS)) {
  for (const spelling of DIGESTS[name].spellings) digestBySpelling.set(spelling, name)
}

export function digestOfOid(oid: string): DigestName | null {
  return digestByOid.get(oid) ?? null
}

export function cipherOfOid(oid: string): CipherName | null {
  return cipherByOid.get(oid) ?? null
}

export function keyTransportOfOid(oid: string): KeyTransport | null {
  return transportByOid.get(oid) ?? null
}

export function signatureOfOid(oid: string): SignatureFacts | null {
  return SIGNATURES[oid] ?? null
}

/** The digest of a name as `micalg`, receipt requests and receipts spell it, or null. */
export function digestOfSpelling(spelling: string): DigestName | null {
  const plain = spelling.toLowerCase().replace(/[^a-z0-9]/g, '')
  // Some products name the algorithm of the signature: `rsa-sha1`, `SHA256withRSA`.
  return digestBySpelling.get(plain.replace(/^rsa|with(?:rsa|ecdsa)(?:encryption)?$/g, '')) ?? null
}

export function isSigningDigest(name: DigestName): name is SigningDigest {
  return DIGESTS[name].signs
}

function keysOf<K extends string>(table: Readonly<Record<K, unknown>>): K[] {
  return Object.keys(table) as K[]
}

function index<K extends string>(table: Readonly<Record<K, { readonly oid: string }>>): Map<string, K> {
  return new Map(keysOf(table).map((name) => [table[name].oid, name]))
}
