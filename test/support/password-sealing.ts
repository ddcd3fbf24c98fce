import { createCipheriv, createHash, pbkdf2Sync, randomBytes, scryptSync } from 'node:crypto'
import forge from 'node-forge'
import {
  algorithmIdentifier,
  integer,
  NULL,
  octetString,
  sequence,
  toBuffer,
  type Part,
} from '../../actors/as2/protocol/asn1/writer.ts'

/** The writing side of encryption with a password, by the RFCs and not by the product's own reading side. */

export interface SealedContent {
  readonly algorithm: Part
  readonly content: Buffer
}

const ITERATIONS = 50

interface Pbes2 {
  readonly scheme: 'pbes2'
  /** Of Node.js; AES, Camellia or triple DES. */
  readonly cipher: string
  readonly cipherOid: string
  readonly keyBytes: number
  /** The digest of PBKDF2, or scrypt. */
  readonly prf: 'sha1' | 'sha224' | 'sha256' | 'sha384' | 'sha512' | 'sha512-256' | 'sha3-256' | 'scrypt'
}

interface Old {
  readonly scheme: 'pkcs12' | 'pbes1'
  readonly oid: string
  readonly cipher: 'des-ede3-cbc' | 'des-cbc' | 'rc2-cbc'
  readonly keyBytes: number
  readonly digest: 'sha1' | 'md5'
}

const PRF_OIDS: Readonly<Record<Exclude<Pbes2['prf'], 'scrypt'>, string>> = {
  sha1: '1.2.840.113549.2.7',
  sha224: '1.2.840.113549.2.8',
  sha256: '1.2.840.113549.2.9',
  sha384: '1.2.840.113549.2.10',
  sha512: '1.2.840.113549.2.11',
  'sha512-256': '1.2.840.113549.2.13',
  'sha3-256': '2.16.840.1.101.3.4.2.14',
}

const AES_128 = { cipher: 'aes-128-cbc', cipherOid: '2.16.840.1.101.3.4.1.2', keyBytes: 16 }
const AES_192 = { cipher: 'aes-192-cbc', cipherOid: '2.16.840.1.101.3.4.1.22', keyBytes: 24 }
const AES_256 = { cipher: 'aes-256-cbc', cipherOid: '2.16.840.1.101.3.4.1.42', keyBytes: 32 }
const CAMELLIA = { cipher: 'camellia-128-cbc', cipherOid: '1.2.392.200011.61.1.1.1.2', keyBytes: 16 }
const TRIPLE_DES = { cipher: 'des-ede3-cbc', cipherOid: '1.2.840.113549.3.7', keyBytes: 24 }

const pbes2 = (cipher: Omit<Pbes2, 'scheme' | 'prf'>, prf: Pbes2['prf']): Pbes2 => ({
  scheme: 'pbes2',
  ...cipher,
  prf,
})
const old = (
  scheme: Old['scheme'],
  oid: string,
  cipher: Old['cipher'],
  keyBytes: number,
  digest: Old['digest'],
): Old => ({ scheme, oid, cipher, keyBytes, digest })

export const SEALINGS = {
  'AES-128, PBKDF2 with SHA-1': pbes2(AES_128, 'sha1'),
  'AES-192, PBKDF2 with SHA-224': pbes2(AES_192, 'sha224'),
  'AES-256, PBKDF2 with SHA-256': pbes2(AES_256, 'sha256'),
  'AES-256, PBKDF2 with SHA-384': pbes2(AES_256, 'sha384'),
  'AES-256, PBKDF2 with SHA-512': pbes2(AES_256, 'sha512'),
  'AES-256, PBKDF2 with SHA-512/256': pbes2(AES_256, 'sha512-256'),
  'AES-256, PBKDF2 with SHA3-256': pbes2(AES_256, 'sha3-256'),
  'AES-256, scrypt': pbes2(AES_256, 'scrypt'),
  'Camellia, PBKDF2 with SHA-256': pbes2(CAMELLIA, 'sha256'),
  'triple DES, PBKDF2 with SHA-1': pbes2(TRIPLE_DES, 'sha1'),
  'PKCS#12 with triple DES': old('pkcs12', '1.2.840.113549.1.12.1.3', 'des-ede3-cbc', 24, 'sha1'),
  'PKCS#12 with two-key triple DES': old('pkcs12', '1.2.840.113549.1.12.1.4', 'des-ede3-cbc', 16, 'sha1'),
  'PKCS#12 with RC2 of 128 bits': old('pkcs12', '1.2.840.113549.1.12.1.5', 'rc2-cbc', 16, 'sha1'),
  'PKCS#12 with RC2 of 40 bits': old('pkcs12', '1.2.840.113549.1.12.1.6', 'rc2-cbc', 5, 'sha1'),
  'PBES1 with MD5 and DES': old('pbes1', '1.2.840.113549.1.5.3', 'des-cbc', 8, 'md5'),
  'PBES1 with MD5 and RC2': old('pbes1', '1.2.840.113549.1.5.6', 'rc2-cbc', 8, 'md5'),
  'PBES1 with SHA-1 and DES': old('pbes1', '1.2.840.113549.1.5.10', 'des-cbc', 8, 'sha1'),
  'PBES1 with SHA-1 and RC2': old('pbes1', '1.2.840.113549.1.5.11', 'rc2-cbc', 8, 'sha1'),
} as const satisfies Readonly<Record<string, Pbes2 | Old>>

export type SealingName = keyof typeof SEALINGS

export const SEALING_NAMES = Object.keys(SEALINGS) as readonly SealingName[]

export function sealWithPassword(content: Buffer, password: string, name: SealingName): SealedContent {
  const sealing = SEALINGS[name]
  return sealing.scheme === 'pbes2'
    ? sealPbes2(content, password, sealing)
    : sealOld(content, password, sealing)
}

/** An encrypted PKCS#8 key (RFC 5958 §3). */
export function sealedKey(pkcs8: Buffer, password: string, name: SealingName): Buffer {
  const { algorithm, content } = sealWithPassword(pkcs8, password, name)
  return toBuffer(sequence(algorithm, octetString(content)))
}

function sealPbes2(content: Buffer, password: string, sealing: Pbes2): SealedContent {
  const { cipher, cipherOid, keyBytes, prf } = sealing
  const salt = randomBytes(16)
  const iv = randomBytes(cipher === 'des-ede3-cbc' ? 8 : 16)
  const key =
    prf === 'scrypt'
      ? scryptSync(password, salt, keyBytes, { N: 1024, r: 8, p: 1 })
      : pbkdf2Sync(password, salt, ITERATIONS, keyBytes, prf)
  const kdf =
    prf === 'scrypt'
      ? algorithmIdentifier(
          '1.3.6.1.4.1.11591.4.11',
          sequence(octetString(salt), integer(1024), integer(8), integer(1)),
        )
      : pbkdf2Algorithm(salt, PRF_OIDS[prf])
  const scheme = algorithmIdentifier(cipherOid, octetString(iv))
  const encrypting = createCipheriv(cipher, key, iv)
  return {
    algorithm: algorithmIdentifier('1.2.840.113549.1.5.13', sequence(kdf, scheme)),
    content: Buffer.concat([encrypting.update(content), encrypting.final()]),
  }
}

/** `keyBytes` is left out where the cipher says it. */
export function pbkdf2Algorithm(salt: Buffer, prfOid: string, keyBytes?: number): Part {
  const length = keyBytes === undefined ? [] : [integer(keyBytes)]
  return algorithmIdentifier(
    '1.2.840.113549.1.5.12',
    sequence(octetString(salt), integer(ITERATIONS), ...length, algorithmIdentifier(prfOid, NULL)),
  )
}

function sealOld(content: Buffer, password: string, sealing: Old): SealedContent {
  const { scheme, oid, cipher, keyBytes, digest } = sealing
  const salt = randomBytes(8)
  const [key, iv] =
    scheme === 'pkcs12'
      ? [
          pkcs12Derived(password, salt, { id: 1, bytes: keyBytes }),
          pkcs12Derived(password, salt, { id: 2, bytes: 8 }),
        ]
      : halves(pbkdf1(password, salt, digest))
  return {
    algorithm: algorithmIdentifier(oid, sequence(octetString(salt), integer(ITERATIONS))),
    content: encryptOld(cipher, { key, iv }, content),
  }
}

function halves(bytes: Buffer): [Buffer, Buffer] {
  return [bytes.subarray(0, 8), bytes.subarray(8, 16)]
}

/** RFC 8018 §5.1. */
function pbkdf1(password: string, salt: Buffer, digest: string): Buffer {
  let bytes = Buffer.concat([Buffer.from(password), salt])
  for (let round = 0; round < ITERATIONS; round += 1) bytes = createHash(digest).update(bytes).digest()
  return bytes
}

interface ForgeDerivation {
  readonly generateKey: (
    password: string | null,
    salt: forge.util.ByteStringBuffer,
    id: number,
    iterations: number,
    bytes: number,
    digest: forge.md.MessageDigest,
  ) => forge.util.ByteStringBuffer
}

/** RFC 7292 appendix B, by node-forge. A password of null is the empty one without its end mark. */
export function pkcs12Derived(
  password: string | null,
  salt: Buffer,
  wish: { readonly id: 1 | 2 | 3; readonly bytes: number; readonly digest?: 'sha1' | 'sha256' | 'sha512' },
): Buffer {
  const { id, bytes, digest = 'sha1' } = wish
  // The types of node-forge leave the function out.
  const { generateKey } = forge.pkcs12 as unknown as ForgeDerivation
  const md = forge.md[digest].create()
  const salted = forge.util.createBuffer(salt.toString('binary'))
  return Buffer.from(generateKey(password, salted, id, ITERATIONS, bytes, md).getBytes(), 'binary')
}

export const PKCS12_ITERATIONS = ITERATIONS

function encryptOld(
  cipher: Old['cipher'],
  { key, iv }: { readonly key: Buffer; readonly iv: Buffer },
  content: Buffer,
): Buffer {
  if (cipher === 'rc2-cbc') {
    const rc2 = forge.rc2.createEncryptionCipher(key.toString('binary'), key.length * 8)
    rc2.start(iv.toString('binary'))
    rc2.update(forge.util.createBuffer(content.toString('binary')))
    rc2.finish()
    return Buffer.from(rc2.output.getBytes(), 'binary')
  }
  // Of three equal keys triple DES is DES; of two keys the first is the third.
  const keys = key.length === 8 ? [key, key, key] : key.length === 16 ? [key, key.subarray(0, 8)] : [key]
  const encrypting = createCipheriv('des-ede3-cbc', Buffer.concat(keys), iv)
  return Buffer.concat([encrypting.update(content), encrypting.final()])
}
