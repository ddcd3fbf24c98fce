import { createDecipheriv, hash, pbkdf2Sync, scryptSync } from 'node:crypto'
import forge from 'node-forge'
import {
  childAt,
  childrenOf,
  DerError,
  integerOf,
  objectIdentifierOf,
  octetsOf,
  TAG,
  type DerElement,
} from './der.ts'

/** Encryption with a password, as PKCS#12 files and encrypted PKCS#8 keys have it (RFC 7292 appendix B, RFC 8018). */

/** The content does not open: another password, or damaged. */
export class WrongPasswordError extends Error {
  override readonly name = 'WrongPasswordError'
}

/** An algorithm that we do not have. */
export class UnsupportedAlgorithmError extends Error {
  override readonly name = 'UnsupportedAlgorithmError'
}

/**
 * The work that one upload may ask for. A file chooses its own number of iterations, so that a hostile one could
 * keep a processor busy for days.
 */
export class WorkBudget {
  #iterations = 2_000_000

  spend(iterations: number): void {
    if (iterations < 1 || iterations > this.#iterations) {
      throw new UnsupportedAlgorithmError('it asks for too many iterations of key derivation')
    }
    this.#iterations -= iterations
  }
}

export interface Algorithm {
  readonly oid: string
  readonly parameters: DerElement | undefined
}

export function algorithmOf(element: DerElement): Algorithm {
  const parts = childrenOf(element)
  return { oid: objectIdentifierOf(childAt(parts, 0)), parameters: parts[1] }
}

const PBES2 = '1.2.840.113549.1.5.13'
const PBKDF2 = '1.2.840.113549.1.5.12'
const SCRYPT = '1.3.6.1.4.1.11591.4.11'

/** RFC 8018 appendix B.1.2: pseudo-random functions of PBKDF2. */
const HMACS: Readonly<Record<string, string>> = {
  '1.2.840.113549.2.7': 'sha1',
  '1.2.840.113549.2.8': 'sha224',
  '1.2.840.113549.2.9': 'sha256',
  '1.2.840.113549.2.10': 'sha384',
  '1.2.840.113549.2.11': 'sha512',
}
const DEFAULT_HMAC = 'sha1'

/** RFC 8018 appendix B.2 and RFC 3565: encryption schemes of PBES2. */
const CIPHERS: Readonly<Record<string, { readonly name: string; readonly keyBytes: number }>> = {
  '2.16.840.1.101.3.4.1.2': { name: 'aes-128-cbc', keyBytes: 16 },
  '2.16.840.1.101.3.4.1.22': { name: 'aes-192-cbc', keyBytes: 24 },
  '2.16.840.1.101.3.4.1.42': { name: 'aes-256-cbc', keyBytes: 32 },
  '1.2.840.113549.3.7': { name: 'des-ede3-cbc', keyBytes: 24 },
}

/** RFC 7292 appendix C: the schemes of older files, all with SHA-1. */
const OLD_SCHEMES: Readonly<Record<string, { readonly cipher: '3des' | 'rc2'; readonly keyBytes: number }>> =
  {
    '1.2.840.113549.1.12.1.3': { cipher: '3des', keyBytes: 24 },
    '1.2.840.113549.1.12.1.4': { cipher: '3des', keyBytes: 16 },
    '1.2.840.113549.1.12.1.5': { cipher: 'rc2', keyBytes: 16 },
    '1.2.840.113549.1.12.1.6': { cipher: 'rc2', keyBytes: 5 },
  }

/** Throws a WrongPasswordError, an UnsupportedAlgorithmError or a DerError. */
export function decrypt(algorithm: Algorithm, sealed: Buffer, password: string, budget: WorkBudget): Buffer {
  const old = OLD_SCHEMES[algorithm.oid]
  if (old !== undefined) return decryptOld(algorithm, old, sealed, password, budget)
  if (algorithm.oid !== PBES2)
    throw new UnsupportedAlgorithmError(`its encryption ${algorithm.oid} is not supported`)
  const parts = childrenOf(parametersOf(algorithm))
  const scheme = algorithmOf(childAt(parts, 1))
  const cipher = CIPHERS[scheme.oid]
  if (cipher === undefined)
    throw new UnsupportedAlgorithmError(`its encryption ${scheme.oid} is not supported`)
  const key = deriveKey(algorithmOf(childAt(parts, 0)), password, cipher.keyBytes, budget)
  return runCipher(cipher.name, key, octetsOf(parametersOf(scheme)), sealed)
}

/** The key that a derivation with a password gives. `keyBytes` counts where the parameters name no length. */
export function deriveKey(kdf: Algorithm, password: string, keyBytes: number, budget: WorkBudget): Buffer {
  const parts = childrenOf(parametersOf(kdf))
  if (kdf.oid === SCRYPT) return deriveScrypt(parts, password, keyBytes, budget)
  if (kdf.oid !== PBKDF2)
    throw new UnsupportedAlgorithmError(`its key derivation ${kdf.oid} is not supported`)
  const salt = octetsOf(childAt(parts, 0, TAG.octetString))
  const iterations = integerOf(childAt(parts, 1))
  const prf = parts.find((part) => part.tag === TAG.sequence)
  const oid = prf === undefined ? undefined : algorithmOf(prf).oid
  const digest = oid === undefined ? DEFAULT_HMAC : HMACS[oid]
  if (digest === undefined)
    throw new UnsupportedAlgorithmError(`its key derivation uses ${oid}, which is not supported`)
  budget.spend(iterations)
  return pbkdf2Sync(Buffer.from(password, 'utf8'), salt, iterations, keyBytes, digest)
}

const SCRYPT_MEMORY_BYTES = 128 * 1024 * 1024

/** RFC 7914 §7.1. One block of its work counts as one iteration. */
function deriveScrypt(
  parts: readonly DerElement[],
  password: string,
  keyBytes: number,
  budget: WorkBudget,
): Buffer {
  const salt = octetsOf(childAt(parts, 0, TAG.octetString))
  const [cost, blockSize, parallelization] = [1, 2, 3].map((at) => integerOf(childAt(parts, at)))
  if (cost === undefined || blockSize === undefined || parallelization === undefined)
    throw new DerError('A number is missing')
  budget.spend(cost * blockSize * parallelization)
  if (128 * cost * blockSize > SCRYPT_MEMORY_BYTES) {
    throw new UnsupportedAlgorithmError('it asks for too much memory of key derivation')
  }
  return scryptSync(Buffer.from(password, 'utf8'), salt, keyBytes, {
    N: cost,
    r: blockSize,
    p: parallelization,
    maxmem: 2 * SCRYPT_MEMORY_BYTES,
  })
}

function decryptOld(
  algorithm: Algorithm,
  scheme: { readonly cipher: '3des' | 'rc2'; readonly keyBytes: number },
  sealed: Buffer,
  password: string,
  budget: WorkBudget,
): Buffer {
  const parts = childrenOf(parametersOf(algorithm))
  const salt = octetsOf(childAt(parts, 0, TAG.octetString))
  const iterations = integerOf(childAt(parts, 1))
  return firstThatOpens(pkcs12Passwords(password), (secret) => {
    const derive = (purpose: number, bytes: number): Buffer =>
      pkcs12Key({ digest: 'sha1', secret, salt, iterations, purpose, bytes }, budget)
    const key = derive(PURPOSE.key, scheme.keyBytes)
    const iv = derive(PURPOSE.iv, 8)
    if (scheme.cipher === 'rc2') return runRc2(key, iv, sealed)
    // Two-key triple DES repeats the first key.
    return runCipher(
      'des-ede3-cbc',
      key.length === 24 ? key : Buffer.concat([key, key.subarray(0, 8)]),
      iv,
      sealed,
    )
  })
}

/** RFC 7292 appendix B.1: UTF-16 with an end mark. Programs write an empty password with the mark or without. */
export function pkcs12Passwords(password: string): readonly Buffer[] {
  const marked = Buffer.from(`${password}\0`, 'utf16le').swap16()
  return password === '' ? [marked, Buffer.alloc(0)] : [marked]
}

export function firstThatOpens(secrets: readonly Buffer[], open: (secret: Buffer) => Buffer): Buffer {
  for (const secret of secrets.slice(0, -1)) {
    try {
      return open(secret)
    } catch (thrown) {
      if (!(thrown instanceof WrongPasswordError)) throw thrown
    }
  }
  return open(secrets.at(-1) ?? Buffer.alloc(0))
}

/** RFC 7292 appendix B.3. */
export const PURPOSE = { key: 1, iv: 2, mac: 3 } as const

export interface Pkcs12Derivation {
  readonly digest: string
  readonly secret: Buffer
  readonly salt: Buffer
  readonly iterations: number
  readonly purpose: number
  readonly bytes: number
}

/** RFC 7292 appendix B.2. */
export function pkcs12Key(derivation: Pkcs12Derivation, budget: WorkBudget): Buffer {
  const { digest, secret, salt, iterations, purpose, bytes } = derivation
  const block = digest === 'sha384' || digest === 'sha512' ? 128 : 64
  const diversifier = Buffer.alloc(block, purpose)
  const input = Buffer.concat([filled(salt, block), filled(secret, block)])
  const key: Buffer[] = []
  for (let have = 0; have < bytes;) {
    budget.spend(iterations)
    let digested = hash(digest, Buffer.concat([diversifier, input]), 'buffer')
    for (let round = 1; round < iterations; round += 1) digested = hash(digest, digested, 'buffer')
    key.push(digested)
    have += digested.length
    addToBlocks(input, filled(digested, block), block)
  }
  return Buffer.concat(key).subarray(0, bytes)
}

/** The bytes repeated to a whole number of blocks; nothing stays nothing. */
function filled(bytes: Buffer, block: number): Buffer {
  if (bytes.length === 0) return bytes
  return Buffer.alloc(Math.ceil(bytes.length / block) * block, bytes)
}

/** Step 6C: each block of `input` becomes itself plus `addend` plus one, modulo its size. */
function addToBlocks(input: Buffer, addend: Buffer, block: number): void {
  for (let start = 0; start < input.length; start += block) {
    let carry = 1
    for (let at = block - 1; at >= 0; at -= 1) {
      const sum = (input[start + at] ?? 0) + (addend[at] ?? 0) + carry
      input[start + at] = sum & 0xff
      carry = sum >> 8
    }
  }
}

function runCipher(name: string, key: Buffer, iv: Buffer, sealed: Buffer): Buffer {
  try {
    const decipher = createDecipheriv(name, key, iv)
    return Buffer.concat([decipher.update(sealed), decipher.final()])
  } catch (thrown) {
    throw new WrongPasswordError('The content does not open', { cause: thrown })
  }
}

/** OpenSSL 3 has RC2 only in its legacy provider; node-forge has it, and the content is small. */
function runRc2(key: Buffer, iv: Buffer, sealed: Buffer): Buffer {
  const decipher = forge.rc2.createDecryptionCipher(key.toString('binary'), key.length * 8)
  decipher.start(iv.toString('binary'))
  decipher.update(forge.util.createBuffer(sealed.toString('binary')))
  if (!decipher.finish()) throw new WrongPasswordError('The content does not open')
  return Buffer.from(decipher.output.getBytes(), 'binary')
}

function parametersOf(algorithm: Algorithm): DerElement {
  if (algorithm.parameters === undefined) throw new DerError('The algorithm has no parameters')
  return algorithm.parameters
}

/** RFC 5958 §3: an encrypted PKCS#8 key is an algorithm and octets. */
export function decryptPrivateKey(element: DerElement, password: string, budget: WorkBudget): Buffer {
  const parts = childrenOf(element)
  return decrypt(algorithmOf(childAt(parts, 0, TAG.sequence)), octetsOf(childAt(parts, 1)), password, budget)
}
