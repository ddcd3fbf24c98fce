/**
 * The elements around a run of octets that may be longer than memory. Written once, they serve both encodings: DER,
 * where every length is known before, and BER of indefinite lengths (X.690 §8.1.3.6), where it need not be.
 */
import { CONSTRUCTED } from './tag.ts'
import { element } from './writer.ts'
import type { Der, Part } from './writer.ts'

/** A constructed element, and what it holds beside the one further in. */
export interface Level {
  readonly tag: number
  readonly before?: readonly Part[]
  readonly after?: readonly Part[]
}

export interface Wrapping {
  /** The outermost first. */
  readonly levels: readonly Level[]
  /** The tag of the octets' own string in primitive form. */
  readonly octetTag: number
}

const END_OF_CONTENTS = Buffer.alloc(2)
const INDEFINITE = 0x80

/** DER around octets that are all there. */
export function wrapDefinite({ levels, octetTag }: Wrapping, octets: readonly Buffer[]): Der {
  return levels.reduceRight<Der>(
    (inner, { tag, before = [], after = [] }) => element(tag, ...before, inner, ...after),
    element(octetTag, ...octets),
  )
}

/** BER up to the first piece of the octets. What comes after them need not be known yet. */
export function openIndefinite({ levels, octetTag }: Wrapping): Buffer {
  const parts: Part[] = []
  for (const { tag, before = [] } of levels) parts.push(begin(tag), ...before)
  return concat([...parts, begin(octetTag | CONSTRUCTED)])
}

/** BER after the last piece. */
export function closeIndefinite({ levels }: Wrapping): Buffer {
  const parts: Part[] = [END_OF_CONTENTS]
  for (const { after = [] } of levels.toReversed()) parts.push(...after, END_OF_CONTENTS)
  return concat(parts)
}

function begin(tag: number): Buffer {
  return Buffer.from([tag, INDEFINITE])
}

function concat(parts: readonly Part[]): Buffer {
  return Buffer.concat(parts.flatMap((part) => (Buffer.isBuffer(part) ? [part] : part.chunks)))
}
