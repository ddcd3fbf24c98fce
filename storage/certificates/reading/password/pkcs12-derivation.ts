import { hash } from 'node:crypto'
import { WrongPasswordError } from '../refusal.ts'
import type { WorkBudget } from './work-budget.ts'

/** The key derivation of PKCS#12 itself (RFC 7292 appendix B). */

/** RFC 7292 appendix B.1: UTF-16 with an end mark. Programs write an empty password with the mark or without. */
export function pkcs12Passwords(password: string): readonly Buffer[] {
  const marked = Buffer.from(`${password}\0`, 'utf16le').swap16()
  return password === '' ? [marked, Buffer.alloc(0)] : [marked]
}

/** What `open` answers for the first secret that is the right one. */
export function firstThatOpens<T>(secrets: readonly Buffer[], open: (secret: Buffer) => T): T {
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
  /** `sha1` to `sha512`. */
  readonly digest: string
  readonly secret: Buffer
  readonly salt: Buffer
  readonly iterations: number
  readonly purpose: number
  readonly bytes: number
}

/** Of the budget, for one iteration: each is a call of its own. */
const UNITS = 2

/** RFC 7292 appendix B.2. */
export function pkcs12Key(derivation: Pkcs12Derivation, budget: WorkBudget): Buffer {
  const { digest, secret, salt, iterations, purpose, bytes } = derivation
  const block = digest === 'sha384' || digest === 'sha512' ? 128 : 64
  const diversifier = Buffer.alloc(block, purpose)
  const input = Buffer.concat([filled(salt, block), filled(secret, block)])
  const key: Buffer[] = []
  for (let have = 0; have < bytes;) {
    budget.spend(iterations, UNITS)
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
