/**
 * The message integrity check (RFC 4130 §7.3.1): a digest over the bytes that the sender and the receiver
 * both know, by which the receipt proves what was received.
 */
import { hash } from 'node:crypto'
import { DIGESTS, digestOfSpelling } from './algorithms.ts'
import type { DigestName } from './algorithms.ts'
import { withoutComments } from './comments.ts'

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

/** How digests are named: as RFC 5751 spells them, or as RFC 3851 does, without a hyphen. SHA-1 is `sha1` in both. */
export type MicalgFormat = 'sha-256' | 'sha256'

const DEFAULT_MICALG_FORMAT: MicalgFormat = 'sha-256'

/** The name of a digest as `micalg`, receipt requests and receipts carry it. */
export function micalgOf(algorithm: DigestName, format: MicalgFormat = DEFAULT_MICALG_FORMAT): string {
  const { micalg } = DIGESTS[algorithm]
  return format === 'sha-256' ? micalg : micalg.replace('-', '')
}

/** The value of `Received-content-MIC`. */
export function formatMic(mic: Mic, format: MicalgFormat = DEFAULT_MICALG_FORMAT): string {
  return `${mic.value}, ${micalgOf(mic.algorithm, format)}`
}

/**
 * Reads `Received-content-MIC`: base64, perhaps folded, a comma and the algorithm in any spelling, comments apart.
 * A missing algorithm is taken from the length of the value. Null when it says nothing usable.
 */
export function parseMic(field: string): Mic | null {
  const [value = '', spelling = ''] = withoutComments(field).split(',')
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
