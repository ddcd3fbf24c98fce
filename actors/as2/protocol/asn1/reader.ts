/**
 * A reader for BER (X.690 §8): definite and indefinite lengths, primitive and constructed OCTET STRINGs.
 * It works in place, copies nothing, and is bounded: in depth, in the number of elements, and by the bytes
 * that are really there, whatever a length claims. What follows the first element is ignored.
 */
import { Asn1Error } from './asn1-error.ts'
import { oidFromBytes } from './oid.ts'
import { CONSTRUCTED, TAG } from './tag.ts'

const MAX_DEPTH = 32
/** Enough for 4 GB in chunks of 1,000 bytes, as Bouncy Castle writes them. */
const MAX_ELEMENTS = 4_000_000
const MAX_LENGTH_OCTETS = 6
const INDEFINITE = -1

/** What one reading may still spend; shared by all readers over the same bytes. */
interface Budget {
  elements: number
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
  readonly #budget: Budget

  constructor(source: Buffer, start: number, limit: number, depth: number, budget: Budget) {
    const header = readHeader(source, start, limit, budget)
    this.tag = header.tag
    this.indefinite = header.length === INDEFINITE
    this.#source = source
    this.#start = start
    this.#contentStart = header.contentStart
    this.#contentEnd = this.indefinite
      ? endOfIndefinite(source, header.contentStart, limit, depth, budget)
      : header.contentStart + header.length
    this.#depth = depth
    this.#budget = budget
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
    return new BerReader(this.#source, this.#contentStart, this.#contentEnd, this.#depth + 1, this.#budget)
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

  /** The chunks of an OCTET STRING, or of one under an IMPLICIT tag; a primitive one is a single chunk. */
  octetChunks(): Buffer[] {
    if ((this.tag & CONSTRUCTED) === 0) return [this.contents]
    const chunks: Buffer[] = []
    for (const child of this.children()) {
      if ((child.tag & ~CONSTRUCTED) !== TAG.OCTET_STRING) throw new Asn1Error('octet string expected')
      if (child.tag === TAG.OCTET_STRING) chunks.push(child.contents)
      else for (const chunk of child.octetChunks()) chunks.push(chunk)
    }
    return chunks
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
  readonly #budget: Budget
  #position: number

  constructor(source: Buffer, start = 0, end = source.length, depth = 0, budget?: Budget) {
    this.#source = source
    this.#position = start
    this.#end = end
    this.#depth = depth
    this.#budget = budget ?? { elements: MAX_ELEMENTS }
  }

  get atEnd(): boolean {
    return this.#position >= this.#end
  }

  /** Takes the next element, which must have the tag when one is given. */
  next(tag?: number): BerElement {
    const element = new BerElement(this.#source, this.#position, this.#end, this.#depth, this.#budget)
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

function readHeader(source: Buffer, start: number, limit: number, budget: Budget): Header {
  if (--budget.elements < 0) throw new Asn1Error('too many elements')
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

/** The offset of the end-of-contents octets that close an indefinite length (X.690 §8.1.5). */
function endOfIndefinite(
  source: Buffer,
  start: number,
  limit: number,
  depth: number,
  budget: Budget,
): number {
  let position = start
  let open = 1
  for (;;) {
    const header = readHeader(source, position, limit, budget)
    if (header.tag === 0) {
      if (header.length !== 0) throw new Asn1Error('malformed end of contents')
      if (--open === 0) return position
      position = header.contentStart
    } else if (header.length === INDEFINITE) {
      if (depth + ++open > MAX_DEPTH) throw new Asn1Error('nested too deeply')
      position = header.contentStart
    } else {
      position = header.contentStart + header.length
    }
  }
}
