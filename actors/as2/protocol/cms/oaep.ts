/**
 * EME-OAEP decoding (RFC 8017 §7.1.2) for a label and a mask with different digests, which node:crypto does not offer
 * and Java's own OAEP padding writes: SHA-256 for the label, SHA-1 for the mask.
 */
import { timingSafeEqual } from 'node:crypto'
import { DIGESTS } from '../algorithms.ts'
import type { DigestName } from '../algorithms.ts'
import { digest as digestOf } from '../mic.ts'
import { mask, xor } from './mgf1.ts'

export interface OaepParameters {
  readonly digest: DigestName
  readonly maskDigest: DigestName
  readonly label: Buffer
}

/**
 * The message, or null when the encoding is not sound. No branch depends on which part of it is wrong (RFC 8017 §7.1.2,
 * note on Manger's attack): all of it is looked at, and the findings are joined.
 */
export function decodeOaep(encoded: Buffer, { digest, maskDigest, label }: OaepParameters): Buffer | null {
  const hashBytes = DIGESTS[digest].bytes
  if (encoded.length < 2 * hashBytes + 2) return null
  const maskedSeed = encoded.subarray(1, 1 + hashBytes)
  const maskedBlock = encoded.subarray(1 + hashBytes)
  const seed = xor(maskedSeed, mask(maskDigest, maskedBlock, hashBytes))
  const block = xor(maskedBlock, mask(maskDigest, seed, maskedBlock.length))
  let wrong = encoded[0] ?? 1
  wrong |= Number(!timingSafeEqual(block.subarray(0, hashBytes), digestOf(digest, label)))
  // Zeros, then a one, then the message: `before` stays all ones until the one is met.
  let before = -1
  let start = 0
  for (let at = hashBytes; at < block.length; at++) {
    const octet = block[at] ?? 0
    const isOne = isZero(octet ^ 1)
    start |= before & isOne & (at + 1)
    wrong |= before & ~isOne & octet
    before &= ~isOne
  }
  wrong |= before
  return wrong === 0 ? block.subarray(start) : null
}

/** All ones for zero, else zero; of an octet. */
function isZero(octet: number): number {
  return (octet - 1) >> 31
}
