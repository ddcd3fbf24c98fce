import { hash } from 'node:crypto'
import { childAt, childrenOf, DerError, integerOf, octetsOf, readDer, TAG, type DerElement } from '../der.ts'
import { UnusableError, WrongPasswordError } from '../refusal.ts'
import { algorithmOf, parametersOf, type Algorithm } from './algorithm.ts'
import { decipher, ivBytesOf, type CipherName } from './ciphers.ts'
import { derivedKey } from './derivation.ts'
import { firstThatOpens, pkcs12Key, pkcs12Passwords, PURPOSE } from './pkcs12-derivation.ts'
import type { WorkBudget } from './work-budget.ts'

/**
 * Encryption with a password, as PKCS#12 files and encrypted PKCS#8 keys have it: PBES2 and PBES1 (RFC 8018 §6),
 * and the schemes of PKCS#12 (RFC 7292 appendix C).
 */

const PBES2 = '1.2.840.113549.1.5.13'

/** RFC 8018 appendix B.2, RFC 3565 and RFC 3657: encryption schemes of PBES2. */
const CIPHERS: Readonly<Record<string, { readonly name: CipherName; readonly keyBytes: number }>> = {
  '2.16.840.1.101.3.4.1.2': { name: 'aes-128-cbc', keyBytes: 16 },
  '2.16.840.1.101.3.4.1.22': { name: 'aes-192-cbc', keyBytes: 24 },
  '2.16.840.1.101.3.4.1.42': { name: 'aes-256-cbc', keyBytes: 32 },
  '1.2.392.200011.61.1.1.1.2': { name: 'camellia-128-cbc', keyBytes: 16 },
  '1.2.392.200011.61.1.1.1.3': { name: 'camellia-192-cbc', keyBytes: 24 },
  '1.2.392.200011.61.1.1.1.4': { name: 'camellia-256-cbc', keyBytes: 32 },
  '1.2.840.113549.3.7': { name: '3des-cbc', keyBytes: 24 },
  '1.3.14.3.2.7': { name: 'des-cbc', keyBytes: 8 },
}

interface OldScheme {
  readonly kind: 'pkcs12' | 'pbes1'
  readonly cipher: CipherName
  readonly keyBytes: number
  readonly digest: 'sha1' | 'md5'
}

/** RFC 7292 appendix C and RFC 8018 appendix A.3. */
const OLD_SCHEMES: Readonly<Record<string, OldScheme>> = {
  '1.2.840.113549.1.12.1.1': { kind: 'pkcs12', cipher: 'rc4', keyBytes: 16, digest: 'sha1' },
  '1.2.840.113549.1.12.1.2': { kind: 'pkcs12', cipher: 'rc4', keyBytes: 5, digest: 'sha1' },
  '1.2.840.113549.1.12.1.3': { kind: 'pkcs12', cipher: '3des-cbc', keyBytes: 24, digest: 'sha1' },
  '1.2.840.113549.1.12.1.4': { kind: 'pkcs12', cipher: '3des-cbc', keyBytes: 16, digest: 'sha1' },
  '1.2.840.113549.1.12.1.5': { kind: 'pkcs12', cipher: 'rc2-cbc', keyBytes: 16, digest: 'sha1' },
  '1.2.840.113549.1.12.1.6': { kind: 'pkcs12', cipher: 'rc2-cbc', keyBytes: 5, digest: 'sha1' },
  '1.2.840.113549.1.5.3': { kind: 'pbes1', cipher: 'des-cbc', keyBytes: 8, digest: 'md5' },
  '1.2.840.113549.1.5.6': { kind: 'pbes1', cipher: 'rc2-cbc', keyBytes: 8, digest: 'md5' },
  '1.2.840.113549.1.5.10': { kind: 'pbes1', cipher: 'des-cbc', keyBytes: 8, digest: 'sha1' },
  '1.2.840.113549.1.5.11': { kind: 'pbes1', cipher: 'rc2-cbc', keyBytes: 8, digest: 'sha1' },
}

/** What opens an upload. */
export interface Opening {
  readonly password: string
  readonly budget: WorkBudget
}

/** The one sequence that was encrypted: a PKCS#8 key or the bags of a PKCS#12 file. Throws a WrongPasswordError. */
export function decrypt(algorithm: Algorithm, sealed: Buffer, opening: Opening): DerElement {
  const old = OLD_SCHEMES[algorithm.oid]
  if (old !== undefined) {
    if (old.kind === 'pbes1') return sequenceIn(decryptPbes1(algorithm, old, sealed, opening))
    return firstThatOpens(pkcs12Passwords(opening.password), (secret) =>
      sequenceIn(decryptPkcs12(algorithm, old, { sealed, secret, budget: opening.budget })),
    )
  }
  if (algorithm.oid !== PBES2) throw new UnusableError(`its encryption ${algorithm.oid} is not supported`)
  return sequenceIn(decryptPbes2(algorithm, sealed, opening))
}

/**
 * What was encrypted is always one sequence. Throws a WrongPasswordError when it is none: a padding alone is right by
 * accident once in 256 times.
 */
export function sequenceIn(opened: Buffer): DerElement {
  try {
    const element = readDer(opened)
    if (element.tag === TAG.sequence && element.raw.length === opened.length) return element
  } catch (thrown) {
    if (!(thrown instanceof DerError)) throw thrown
  }
  throw new WrongPasswordError('The content does not open')
}

/** RFC 8018 §6.2. */
function decryptPbes2(algorithm: Algorithm, sealed: Buffer, { password, budget }: Opening): Buffer {
  const parts = childrenOf(parametersOf(algorithm))
  const scheme = algorithmOf(childAt(parts, 1))
  const cipher = CIPHERS[scheme.oid]
  if (cipher === undefined) throw new UnusableError(`its encryption ${scheme.oid} is not supported`)
  const iv = octetsOf(parametersOf(scheme))
  const kdf = algorithmOf(childAt(parts, 0))
  const key = derivedKey({ kdf, password, keyBytes: cipher.keyBytes }, budget)
  return decipher({ cipher: cipher.name, key, iv }, sealed)
}

function saltAndIterations(algorithm: Algorithm): { readonly salt: Buffer; readonly iterations: number } {
  const parts = childrenOf(parametersOf(algorithm))
  return { salt: octetsOf(childAt(parts, 0, TAG.octetString)), iterations: integerOf(childAt(parts, 1)) }
}

/** RFC 8018 §6.1.2: the first half of the derived octets is the key, the second the initialization vector. */
function decryptPbes1(
  algorithm: Algorithm,
  { cipher, digest }: OldScheme,
  sealed: Buffer,
  { password, budget }: Opening,
): Buffer {
  const { salt, iterations } = saltAndIterations(algorithm)
  budget.spend(iterations)
  let derived = hash(digest, Buffer.concat([Buffer.from(password, 'utf8'), salt]), 'buffer')
  for (let round = 1; round < iterations; round += 1) derived = hash(digest, derived, 'buffer')
  return decipher({ cipher, key: derived.subarray(0, 8), iv: derived.subarray(8, 16) }, sealed)
}

/** RFC 7292 appendix C. */
function decryptPkcs12(
  algorithm: Algorithm,
  { cipher, digest, keyBytes }: OldScheme,
  content: { readonly sealed: Buffer; readonly secret: Buffer; readonly budget: WorkBudget },
): Buffer {
  const { sealed, secret, budget } = content
  const derive = (purpose: number, bytes: number): Buffer =>
    pkcs12Key({ digest, secret, ...saltAndIterations(algorithm), purpose, bytes }, budget)
  const ivBytes = ivBytesOf(cipher)
  const iv = ivBytes === 0 ? Buffer.alloc(0) : derive(PURPOSE.iv, ivBytes)
  return decipher({ cipher, key: derive(PURPOSE.key, keyBytes), iv }, sealed)
}

/** RFC 5958 §3: an encrypted PKCS#8 key is an algorithm and octets. Answers the PKCS#8 key. */
export function decryptPrivateKey(element: DerElement, opening: Opening): Buffer {
  const parts = childrenOf(element)
  return decrypt(algorithmOf(childAt(parts, 0, TAG.sequence)), octetsOf(childAt(parts, 1)), opening).raw
}
