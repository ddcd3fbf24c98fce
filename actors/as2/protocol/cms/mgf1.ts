/** The mask generation function MGF1 (RFC 8017 B.2.1). */
import { DIGESTS } from '../algorithms.ts'
import type { DigestName } from '../algorithms.ts'
import { digest as digestOf } from '../mic.ts'

export function mask(digest: DigestName, seed: Buffer, bytes: number): Buffer {
  const blocks: Buffer[] = []
  for (let counter = 0; counter * DIGESTS[digest].bytes < bytes; counter++) {
    const suffix = Buffer.alloc(4)
    suffix.writeUInt32BE(counter)
    blocks.push(digestOf(digest, Buffer.concat([seed, suffix])))
  }
  return Buffer.concat(blocks, bytes)
}

/** As long as the first. */
export function xor(one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((octet, at) => octet ^ (other[at] ?? 0)))
}
