/**
 * A reader for BER (X.690 §8): definite and indefinite lengths, primitive and constructed OCTET STRINGs.
 * It works in place, copies nothing but small pieces, and is bounded: in depth, in the number of empty elements, and by
 * the bytes that are really there, whatever a length claims. What follows the first element is ignored.
 */
import { Asn1Error } from './asn1-error.ts'
import { oidFromBytes } from './oid.ts'
import { CONSTRUCTED, TAG } from './tag.ts'

const MAX_DEPTH = 32
/** More than any structure without content has. */
const LEAST_EMPTY = 65_536
const BYTES_PER_EMPTY = 8
const MAX_LENGTH_OCTETS = 6
const INDEFINITE = -1
/** A piece of fewer octets costs more by itself than copied. */
const SMALL_PIECE_BYTES = 256
const MOST_SMALL_PIECES = 4_096

/**
 * How many elements without contents there may be in so many bytes: what is sent in earnest is not cut into nothing. With
 * pieces of an octet each it may be, and their own bytes bound their number.
 */
export function emptyElementsAllowed(bytes: number): number {
  return LEAST_EMPTY + Math.floor(bytes / BYTES_PER_EMPTY)
}

/** What is known of bytes; shared by all readers over them. All in it are offsets. */
interface Survey {
  /** The elements without contents: each counts once, however often it is read. */
  readonly empty: Set<number>
  /** The last of them. */
  lastEmpty: number
  /** The ends of indefinite lengths by their beginnings: each is looked for once, however many are around it. */
  readonly ends: Map<number, number>
}

interface Header {
  readonly tag: number
  readonly contentStart: number
  /** In bytes, or INDEFINITE. */
  readonly length: number
}

/** One element in its source; offsets are absolute. */
export class BerElement {
  readonly tag: number
  readonly indefinite: boolean
  readonly #source: Buffer
  readonly #start: number
  readonly #contentStart: number
  readonly #contentEnd: number
  readonly #depth: number
  readonly #survey: Survey

  constructor(source: Buffer, start: number, limit: number, depth: number, survey: Survey) {
    const header = readHeader(source, start, limit)
    if (header.length === 0) noteEmpty(survey, start)
    this.tag = header.tag
    this.indefinite = header.length === INDEFINITE
    this.#source = source
    this.#start = start
    this.#contentStart = header.contentStart
    this.#contentEnd = this.indefinite
      ? endOfIndefinite(source, header.contentStart, limit, depth, survey)
      : header.contentStart + header.length
    this.#depth = depth
    this.#survey = survey
  }

  /** Offset of the first byte after the element. */
  get end(): number {
    return this.indefinite ? this.#contentEnd + 2 : this.#contentEnd
  }

  /** The contents octets, without a copy. */
  get contents(): Buffer {
    return this.#source.subarray(this.#contentStart, this.#contentEnd)
  }

  /** The element as it was received: identifier, length, contents. */
  get raw(): Buffer {
    return this.#source.subarray(this.#start, this.end)
  }

  /** A reader over the elements of a constructed element. */
  children(): BerReader {
    if ((this.tag & CONSTRUCTED) === 0) throw new Asn1Error('constructed element expected')
    if (this.#depth >= MAX_DEPTH) throw new Asn1Error('nested too deeply')
    return new BerReader(this.#source, this.#contentStart, this.#contentEnd, this.#depth + 1, this.#survey)
  }

  oid(): string {
    if (this.tag !== TAG.OBJECT_IDENTIFIER) throw new Asn1Error('object identifier expected')
    return oidFromBytes(this.contents)
  }

  /** A small non-negative INTEGER. */
  smallInteger(): number {
    const { contents } = this
    if (this.tag !== TAG.INTEGER || contents.length < 1 || contents.length > 4) {
      throw new Asn1Error('small integer expected')
    }
    return contents.readIntBE(0, contents.length)
  }

  /**
   * The chunks of an OCTET STRING, or of one under an IMPLICIT tag, without empty ones; a primitive one is one chunk. Small
   * pieces are put together.
   */
  octetChunks(): Buffer[] {
    if ((this.tag & CONSTRUCTED) === 0) return [this.contents]
    const chunks: Buffer[] = []
    const small: Buffer[] = []
    const finishSmall = (): void => {
      const [only] = small
      if (only !== undefined) chunks.push(small.length === 1 ? only : Buffer.concat(small))
      small.length = 0
    }
    this.#eachPiece((piece) => {
      if (piece.length < SMALL_PIECE_BYTES) {
        if (small.push(piece) === MOST_SMALL_PIECES) finishSmall()
      } else {
        finishSmall()
        chunks.push(piece)
      }
    })
    finishSmall()
    return chunks
  }

  #eachPiece(take: (piece: Buffer) => void): void {
    for (const child of this.children()) {
      if ((child.tag & ~CONSTRUCTED) !== TAG.OCTET_STRING) throw new Asn1Error('octet string expected')
      if ((child.tag & CONSTRUCTED) !== 0) child.#eachPiece(take)
      else if (child.contents.length > 0) take(child.contents)
    }
  }

  /** The octets of an OCTET STRING; copied only when it is constructed. */
  octets(): Buffer {
    const chunks = this.octetChunks()
    const [only] = chunks
    return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks)
  }
}

/** Reads elements one after the other. */
export class BerReader {
  readonly #source: Buffer
  readonly #end: number
  readonly #depth: number
  readonly #survey: Survey
  #position: number

  constructor(source: Buffer, start = 0, end = source.length, depth = 0, survey?: Survey) {
    this.#source = source
    this.#position = start
    this.#end = end
    this.#depth = depth
    this.#survey = survey ?? { empty: new Set(), lastEmpty: 0, ends: new Map() }
  }

  get atEnd(): boolean {
    return this.#position >= this.#end
  }

  /** Takes the next element, which must have the tag when one is given. */
  next(tag?: number): BerElement {
    const element = new BerElement(this.#source, this.#position, this.#end, this.#depth, this.#survey)
    if (tag !== undefined && element.tag !== tag) {
      throw new Asn1Error(`element 0x${tag.toString(16)} expected, 0x${element.tag.toString(16)} found`)
    }
    this.#position = element.end
    return element
  }

  /** Takes the next element if it has one of the tags. */
  optional(...tags: readonly number[]): BerElement | null {
    const tag = this.atEnd ? undefined : this.#source[this.#position]
    return tag !== undefined && tags.includes(tag) ? this.next() : null
  }

  *[Symbol.iterator](): Generator<BerElement> {
    while (!this.atEnd) yield this.next()
  }
}

function readHeader(source: Buffer, start: number, limit: number): Header {
  const tag = source[start]
  const first = source[start + 1]
  if (tag === undefined || first === undefined || start + 2 > limit) throw new Asn1Error('truncated')
  if ((tag & 0x1f) === 0x1f) throw new Asn1Error('tag number out of range')
  let contentStart = start + 2
  let length = first
  if (first === 0x80) {
    if ((tag & CONSTRUCTED) === 0) throw new Asn1Error('primitive element of indefinite length')
    return { tag, contentStart, length: INDEFINITE }
  }
  if (first > 0x80) {
    const octets = first - 0x80
    if (octets > MAX_LENGTH_OCTETS) throw new Asn1Error('length out of range')
    if (contentStart + octets > limit) throw new Asn1Error('truncated')
    length = source.readUIntBE(contentStart, octets)
    contentStart += octets
  }
  if (contentStart + length > limit) throw new Asn1Error('truncated')
  return { tag, contentStart, length }
}

function noteEmpty(survey: Survey, at: number): void {
  survey.empty.add(at)
  survey.lastEmpty = Math.max(survey.lastEmpty, at)
  if (survey.empty.size > emptyElementsAllowed(survey.lastEmpty)) throw new Asn1Error('too many elements')
}

/** The offset of the end-of-contents octets that close an indefinite length (X.690 §8.1.5). */
function endOfIndefinite(
  source: Buffer,
  start: number,
  limit: number,
  depth: number,
  survey: Survey,
): number {
  const known = survey.ends.get(start)
  if (known !== undefined) return known
  const open = [start]
  let position = start
  for (;;) {
    const { tag, length, contentStart } = readHeader(source, position, limit)
    if (tag === 0) {
      if (length !== 0) throw new Asn1Error('malformed end of contents')
      const closed = open.pop() ?? start
      if (closed === position) noteEmpty(survey, position)
      survey.ends.set(closed, position)
      if (open.length === 0) return position
      position = contentStart
    } else if (length === INDEFINITE) {
      open.push(contentStart)
      if (depth + open.length > MAX_DEPTH) throw new Asn1Error('nested too deeply')
      position = contentStart
    } else {
      if (length === 0) noteEmpty(survey, position)
      position = contentStart + length
    }
  }
}
