import { pbkdf2Sync, scryptSync } from 'node:crypto'
import { childAt, childrenOf, integerOf, octetsOf, TAG, type DerElement } from '../der.ts'
import { TooMuchError, UnusableError } from '../refusal.ts'
import { algorithmOf, parametersOf, type Algorithm } from './algorithm.ts'
import type { WorkBudget } from './work-budget.ts'

/** Key derivation functions of PBES2 and PBMAC1: PBKDF2 (RFC 8018 §5.2) and scrypt (RFC 7914). */

const PBKDF2 = '1.2.840.113549.1.5.12'
const SCRYPT = '1.3.6.1.4.1.11591.4.11'

interface Digest {
  readonly name: string
  readonly bytes: number
  /** Of the budget, for one iteration. */
  readonly units: number
}

/** RFC 8018 appendix B.1.2 and NIST's registry: pseudo-random functions of PBKDF2, and MACs of PBMAC1. */
const HMACS: Readonly<Record<string, Digest>> = {
  '1.2.840.113549.2.7': { name: 'sha1', bytes: 20, units: 1 },
  '1.2.840.113549.2.8': { name: 'sha224', bytes: 28, units: 1 },
  '1.2.840.113549.2.9': { name: 'sha256', bytes: 32, units: 1 },
  '1.2.840.113549.2.10': { name: 'sha384', bytes: 48, units: 3 },
  '1.2.840.113549.2.11': { name: 'sha512', bytes: 64, units: 3 },
  '1.2.840.113549.2.12': { name: 'sha512-224', bytes: 28, units: 3 },
  '1.2.840.113549.2.13': { name: 'sha512-256', bytes: 32, units: 3 },
  '2.16.840.1.101.3.4.2.13': { name: 'sha3-224', bytes: 28, units: 4 },
  '2.16.840.1.101.3.4.2.14': { name: 'sha3-256', bytes: 32, units: 4 },
  '2.16.840.1.101.3.4.2.15': { name: 'sha3-384', bytes: 48, units: 4 },
  '2.16.840.1.101.3.4.2.16': { name: 'sha3-512', bytes: 64, units: 4 },
}
const SHA1 = '1.2.840.113549.2.7'

export function hmacOf(oid: string): Digest {
  const digest = HMACS[oid]
  if (digest === undefined) throw new UnusableError(`its HMAC ${oid} is not supported`)
  return digest
}

export interface Derivation {
  readonly kdf: Algorithm
  readonly password: string
  /** The length of the key where the parameters name none; they must not name another. Null: they must name one. */
  readonly keyBytes: number | null
}

const LONGEST_KEY = 256
const LONGEST_SALT = 64 * 1024

export function derivedKey(derivation: Derivation, budget: WorkBudget): Buffer {
  const { kdf } = derivation
  if (kdf.oid !== PBKDF2 && kdf.oid !== SCRYPT) {
    throw new UnusableError(`its key derivation ${kdf.oid} is not supported`)
  }
  const parts = childrenOf(parametersOf(kdf))
  const salt = octetsOf(childAt(parts, 0, TAG.octetString))
  if (salt.length > LONGEST_SALT) throw new UnusableError('its salt is too long')
  return kdf.oid === SCRYPT
    ? scrypt(derivation, { parts, salt }, budget)
    : pbkdf2(derivation, { parts, salt }, budget)
}

interface Parameters {
  readonly parts: readonly DerElement[]
  readonly salt: Buffer
}

function pbkdf2(derivation: Derivation, { parts, salt }: Parameters, budget: WorkBudget): Buffer {
  const iterations = integerOf(childAt(parts, 1))
  const prf = parts.find((part) => part.tag === TAG.sequence)
  const digest = hmacOf(prf === undefined ? SHA1 : algorithmOf(prf).oid)
  const length = keyLength(derivation, parts[2])
  // A key longer than the digest takes a chain of iterations for each piece.
  budget.spend(iterations, digest.units * Math.ceil(length / digest.bytes))
  return pbkdf2Sync(Buffer.from(derivation.password, 'utf8'), salt, iterations, length, digest.name)
}

/** RFC 8018 appendix A.2: an optional integer says the length. */
function keyLength({ keyBytes }: Derivation, named: DerElement | undefined): number {
  const length = named?.tag === TAG.integer ? integerOf(named) : keyBytes
  if (length === null || length < 1 || length > LONGEST_KEY || length !== (keyBytes ?? length)) {
    throw new UnusableError('its key derivation names no length, or a wrong one')
  }
  return length
}

const SCRYPT_MEMORY_BYTES = 128 * 1024 * 1024
/** Of the budget, for each of its blocks: 128 bytes are mixed twice. */
const SCRYPT_UNITS = 3

function scrypt(derivation: Derivation, { parts, salt }: Parameters, budget: WorkBudget): Buffer {
  const [N, r, p] = [1, 2, 3].map((at) => integerOf(childAt(parts, at)))
  if (N === undefined || r === undefined || p === undefined) throw new Error('Three numbers were read')
  budget.spend(N * r * p, SCRYPT_UNITS)
  if (128 * N * r > SCRYPT_MEMORY_BYTES) {
    throw new TooMuchError('it asks for too much memory of key derivation')
  }
  const length = keyLength(derivation, parts[4])
  try {
    const maxmem = 2 * SCRYPT_MEMORY_BYTES
    return scryptSync(Buffer.from(derivation.password, 'utf8'), salt, length, { N, r, p, maxmem })
  } catch {
    throw new UnusableError('its key derivation has numbers that scrypt does not take')
  }
}
