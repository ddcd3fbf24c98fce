/**
 * The message integrity check (RFC 4130 §7.3.1): a digest over the bytes that the sender and the receiver
 * both know, by which the receipt proves what was received.
 */
import { hash } from 'node:crypto'
import { DIGESTS, digestOfSpelling } from './algorithms.ts'
import type { DigestName } from './algorithms.ts'

export interface Mic {
  readonly algorithm: DigestName
  /** Base64, without line breaks. */
  readonly value: string
}

export function digest(algorithm: DigestName, bytes: Buffer): Buffer {
  return hash(DIGESTS[algorithm].node, bytes, 'buffer')
}

export function micOf(algorithm: DigestName, bytes: Buffer): Mic {
  return micOfDigest(algorithm, digest(algorithm, bytes))
}

/** The MIC of a digest that is computed already. */
export function micOfDigest(algorithm: DigestName, value: Buffer): Mic {
  return { algorithm, value: value.toString('base64') }
}

/** Whether two MICs state the same: value and algorithm are compared apart, spelling and padding do not count. */
export function micEquals(a: Mic, b: Mic): boolean {
  const bytes = Buffer.from(a.value, 'base64')
  return a.algorithm === b.algorithm && bytes.length > 0 && bytes.equals(Buffer.from(b.value, 'base64'))
}

/** The value of `Received-content-MIC`. */
export function formatMic(mic: Mic): string {
  return `${mic.value}, ${DIGESTS[mic.algorithm].micalg}`
}

/**
 * Reads `Received-content-MIC`: base64, perhaps folded, a comma and the algorithm in any spelling.
 * A missing algorithm is taken from the length of the value. Null when it says nothing usable.
 */
export function parseMic(field: string): Mic | null {
  const [value = '', spelling = ''] = field.split(',')
  const bytes = Buffer.from(value.replace(/\s+/g, ''), 'base64')
  const algorithm = spelling.trim() === '' ? digestOfLength(bytes.length) : digestOfSpelling(spelling)
  if (algorithm === null || DIGESTS[algorithm].bytes !== bytes.length) return null
  return micOfDigest(algorithm, bytes)
}

function digestOfLength(bytes: number): DigestName | null {
  for (const name of ['MD5', 'SHA1', 'SHA256', 'SHA384', 'SHA512'] as const) {
    if (DIGESTS[name].bytes === bytes) return name
  }
  return null
}
