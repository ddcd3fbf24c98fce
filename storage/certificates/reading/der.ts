import { UnreadableError } from './refusal.ts'

/**
 * Reads DER, and BER as PKCS#7 and PKCS#12 files of some programs have it (X.690). Only what is asked for is read, so that a
 * file of millions of tiny elements costs no memory.
 */
export interface DerElement {
  /** The identifier octet: class, constructed flag and number. Numbers above 30 do not occur where we read. */
  readonly tag: number
  readonly constructed: boolean
  readonly content: Buffer
  /** The element with its header. */
  readonly raw: Buffer
}

/** The bytes are no DER or BER that we read. */
export class DerError extends UnreadableError {
  override readonly name = 'DerError'
}

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  objectIdentifier: 0x06,
  sequence: 0x30,
  set: 0x31,
} as const

/** Constructed context tag, such as the `[0]` of an explicit or implicit field. */
export function contextTag(number: number): number {
  return 0xa0 | number
}

const CONSTRUCTED = 0x20
const NUMBER = 0x1f
const INDEFINITE = 0x80
const DEEPEST = 16
const MOST_CHILDREN = 10_000
/** Elements that one call visits: with indefinite lengths, all that are inside must be read to find the end. */
const MOST_VISITED = 200_000
const MOST_PIECES = 100_000

/** The element that the bytes begin with; what follows it is not looked at. */
export function readDer(bytes: Buffer): DerElement {
  return readAt(bytes, 0, 0, { visited: 0 })
}

/** The elements inside a constructed one. */
export function childrenOf(element: DerElement): readonly DerElement[] {
  if (!element.constructed) throw new DerError('the element has no elements inside')
  const children: DerElement[] = []
  const scan = { visited: 0 }
  let at = 0
  while (at < element.content.length) {
    if (children.length === MOST_CHILDREN) throw new DerError('the element has too many elements inside')
    const child = readAt(element.content, at, 0, scan)
    children.push(child)
    at += child.raw.length
  }
  return children
}

/** The bytes of an octet string, also of one in pieces (X.690 §8.7.3), or of an implicitly tagged one. */
export function octetsOf(element: DerElement): Buffer {
  if (!element.constructed) return element.content
  const pieces: Buffer[] = []
  collectPieces(element, pieces, 0)
  return Buffer.concat(pieces)
}

function collectPieces(element: DerElement, pieces: Buffer[], depth: number): void {
  if (depth > DEEPEST) throw new DerError('the octet string is nested too deeply')
  for (const piece of childrenOf(element)) {
    if (piece.constructed) collectPieces(piece, pieces, depth + 1)
    else pieces.push(piece.content)
    if (pieces.length > MOST_PIECES) throw new DerError('the octet string is in too many pieces')
  }
}

/** A non-negative integer of at most 6 bytes. */
export function integerOf(element: DerElement): number {
  const { tag, content } = element
  if (tag !== TAG.integer || content.length === 0 || content.length > 6 || content.readInt8(0) < 0) {
    throw new DerError('the integer is negative or too large')
  }
  return content.readUIntBE(0, content.length)
}

/** Dotted decimal notation. */
export function objectIdentifierOf(element: DerElement): string {
  const { tag, content } = element
  if (tag !== TAG.objectIdentifier || content.length === 0 || content.length > 64) {
    throw new DerError('the object identifier is empty or too long')
  }
  const arcs: bigint[] = []
  let arc = 0n
  for (const octet of content) {
    arc = (arc << 7n) | BigInt(octet & 0x7f)
    if ((octet & 0x80) !== 0) continue
    arcs.push(arc)
    arc = 0n
  }
  const [first = 0n, ...rest] = arcs
  const root = first < 80n ? first / 40n : 2n
  return [root, first - root * 40n, ...rest].join('.')
}

/** The child at a place, which must have the tag when one is given. */
export function childAt(children: readonly DerElement[], at: number, tag?: number): DerElement {
  const child = children[at]
  if (child === undefined) throw new DerError('an element is missing')
  if (tag !== undefined && child.tag !== tag) throw new DerError('an element of another kind was expected')
  return child
}

interface Scan {
  visited: number
}

function readAt(bytes: Buffer, start: number, depth: number, scan: Scan): DerElement {
  scan.visited += 1
  if (scan.visited > MOST_VISITED) throw new DerError('the file has too many elements')
  const tag = octetAt(bytes, start)
  if ((tag & NUMBER) === NUMBER) throw new DerError('the tag number is too large')
  const constructed = (tag & CONSTRUCTED) !== 0
  const first = octetAt(bytes, start + 1)
  if (first === INDEFINITE) return readIndefinite(bytes, { start, tag, depth }, scan)
  const { length, from } =
    first < INDEFINITE ? { length: first, from: start + 2 } : longLength(bytes, start, first)
  const end = from + length
  if (end > bytes.length) throw new DerError('the element is cut off')
  return { tag, constructed, content: bytes.subarray(from, end), raw: bytes.subarray(start, end) }
}

function longLength(bytes: Buffer, start: number, first: number): { length: number; from: number } {
  const count = first & 0x7f
  if (count > 4) throw new DerError('the length is too large')
  const from = start + 2 + count
  if (from > bytes.length) throw new DerError('the element is cut off')
  return { length: bytes.readUIntBE(start + 2, count), from }
}

/** X.690 §8.1.3.6: elements up to the end-of-contents octets. */
function readIndefinite(
  bytes: Buffer,
  place: { readonly start: number; readonly tag: number; readonly depth: number },
  scan: Scan,
): DerElement {
  const { start, tag, depth } = place
  if ((tag & CONSTRUCTED) === 0) throw new DerError('a primitive element needs a length')
  if (depth === DEEPEST) throw new DerError('the elements are nested too deeply')
  const from = start + 2
  let at = from
  while (octetAt(bytes, at) !== 0 || octetAt(bytes, at + 1) !== 0) {
    at += readAt(bytes, at, depth + 1, scan).raw.length
  }
  return { tag, constructed: true, content: bytes.subarray(from, at), raw: bytes.subarray(start, at + 2) }
}

function octetAt(bytes: Buffer, at: number): number {
  const octet = bytes[at]
  if (octet === undefined) throw new DerError('the element is cut off')
  return octet
}
