/**
 * Reads BER (X.690 §8) as it comes: definite and indefinite lengths, constructed OCTET STRINGs. It finds the same
 * structures, and of several errors the same one, as asn1/reader.ts, which looks through an element of indefinite length
 * before anything in it is read: so what is still open is looked through to its end before an error inside it counts.
 */
import { Asn1Error } from '../asn1/asn1-error.ts'
import { BerReader, emptyElementsAllowed } from '../asn1/reader.ts'
import type { BerElement } from '../asn1/reader.ts'
import { CONSTRUCTED, TAG } from '../asn1/tag.ts'
import type { ByteSource } from './byte-source.ts'
import { Gatherer } from './gather.ts'
import { MAX_STRUCTURE_BYTES } from './limits.ts'

const MAX_DEPTH = 32
const MAX_LENGTH_OCTETS = 6
/** Identifier, first length octet, and the length octets behind it. */
const MAX_HEADER_BYTES = 2 + MAX_LENGTH_OCTETS
const INDEFINITE = -1

interface Header {
  readonly tag: number
  /** In bytes, or INDEFINITE. */
  readonly length: number
  readonly raw: Buffer
}

/** An element that is being read. */
interface Frame {
  readonly tag: number
  readonly indefinite: boolean
  /** Where its contents begin; offsets are those of the source. */
  readonly start: number
  /** Where it ends, or where at the latest. */
  readonly limit: number
}

export class BerStream {
  readonly #source: ByteSource
  readonly #frames: Frame[] = []
  /** How many elements without contents there were. */
  #empty = 0
  /** Where nothing can be read any more because a header makes no sense. */
  #broken = false
  #brokenDepth = Infinity
  /** Where the malformed end of an element says that it ends itself. */
  #claimedEnd = 0

  constructor(source: ByteSource) {
    this.#source = source
  }

  /** Opens the next element of the one that is open, which must have the tag when one is given; answers its header. */
  async open(tag?: number): Promise<Buffer> {
    const header = await this.#next()
    if (header === null) throw new Asn1Error('truncated')
    this.#enter(header)
    if (tag !== undefined && header.tag !== tag) {
      throw new Asn1Error(`element 0x${tag.toString(16)} expected, 0x${header.tag.toString(16)} found`)
    }
    return header.raw
  }

  /** To be called before the elements of an open element are read. */
  children(): void {
    if (((this.#frames.at(-1)?.tag ?? 0) & CONSTRUCTED) === 0)
      throw new Asn1Error('constructed element expected')
    if (this.#frames.length > MAX_DEPTH) throw new Asn1Error('nested too deeply')
  }

  /** The depth of the outermost element that makes no sense, from 0; Infinity as long as all do. */
  get brokenDepth(): number {
    return this.#brokenDepth
  }

  /** The tag of the element that is open. */
  get tag(): number {
    return this.#frames.at(-1)?.tag ?? 0
  }

  /** Takes a small element as a whole. */
  async element(tag?: number): Promise<BerElement> {
    const pieces = [await this.open(tag)]
    await this.#finish(pieces)
    const raw = Buffer.concat(pieces)
    return new BerReader(raw, 0, raw.length, this.#frames.length).next()
  }

  /** The tag of the next element of the one that is open; undefined at its end. */
  async nextTag(): Promise<number | undefined> {
    const { limit, indefinite } = this.#top()
    await this.#source.gather(2)
    if (this.#source.position >= limit) return undefined
    const atEnd = indefinite && this.#source.peek(0) === 0 && this.#source.peek(1) === 0
    return atEnd ? undefined : this.#source.peek(0)
  }

  /** Passes over the next element if it has the tag. */
  async skipOptional(tag: number): Promise<void> {
    if ((await this.nextTag()) !== tag) return
    await this.open()
    await this.close()
  }

  /** The octets of the open OCTET STRING, or of one under an IMPLICIT tag, which is closed behind them. */
  async *octets(): AsyncGenerator<Buffer> {
    const depth = this.#frames.length
    if ((this.tag & CONSTRUCTED) === 0) {
      yield* this.#contents(this.#top().limit)
      this.#frames.pop()
      return
    }
    this.children()
    const gatherer = new Gatherer()
    while (this.#frames.length >= depth) {
      if (this.#source.buffered < MAX_HEADER_BYTES) await this.#source.gather(MAX_HEADER_BYTES)
      const header = this.#readHeader()
      if (header === null) {
        this.#frames.pop()
        continue
      }
      this.#enter(header)
      if ((header.tag & ~CONSTRUCTED) !== TAG.OCTET_STRING) throw new Asn1Error('octet string expected')
      if (header.tag !== TAG.OCTET_STRING) {
        this.children()
        continue
      }
      const { limit } = this.#top()
      if (this.#source.position + this.#source.buffered >= limit) {
        for (const ready of gatherer.add(this.#source.take(limit - this.#source.position))) yield ready
      } else {
        for await (const piece of this.#contents(limit)) for (const ready of gatherer.add(piece)) yield ready
      }
      this.#frames.pop()
    }
    for (const left of gatherer.end()) yield left
  }

  /** Passes over what is left of the open element. */
  async close(): Promise<void> {
    await this.#finish(null)
  }

  /**
   * To be called at the end, after a failure too: reads to the end of everything.
   * `trailing` is told of the bytes behind the outermost element.
   * @throws Asn1Error when an element that is open is broken, which comes before any failure inside it
   */
  async drain(trailing: (bytes: Buffer) => void = () => undefined): Promise<void> {
    let failure: unknown = null
    try {
      await this.closeAll()
    } catch (thrown) {
      if (this.#source.failed) throw thrown
      failure = thrown
    }
    if (failure === null) for await (const bytes of this.#source) trailing(bytes)
    await this.#source.drain()
    if (this.#claimedEnd > this.#source.position) throw new Asn1Error('truncated')
    if (failure !== null) throw failure
  }

  /** How many elements are open. */
  get depth(): number {
    return this.#frames.length
  }

  /**
   * After a failure: closes the element that was opened at a depth, to go on behind it. False when that element makes no
   * sense itself. @throws Asn1Error when one of those within it is broken
   */
  async recover(depth: number): Promise<boolean> {
    this.#source.check()
    this.#leaveBroken()
    if (this.#frames.length <= depth) return false
    while (this.#frames.length > depth) await this.close()
    return true
  }

  /** Reads to the end of the outermost element. @throws as `drain` does */
  async closeAll(): Promise<void> {
    this.#source.check()
    let failure: unknown = null
    this.#leaveBroken()
    while (this.#frames.length > 0) {
      try {
        await this.close()
      } catch (thrown) {
        if (this.#source.failed) throw thrown
        failure = thrown
        this.#leaveBroken()
        if (this.#source.ended && this.#source.buffered === 0) this.#frames.length = 0
      }
    }
    if (failure !== null) throw failure
  }

  /** Where a header makes no sense, all around it is lost up to the element whose end is known. */
  #leaveBroken(): void {
    if (!this.#broken) return
    this.#broken = false
    while (this.#frames.at(-1)?.indefinite === true) this.#frames.pop()
    this.#brokenDepth = Math.min(this.#brokenDepth, this.#frames.length)
  }

  #top(): Omit<Frame, 'tag'> {
    return this.#frames.at(-1) ?? { indefinite: false, start: 0, limit: Infinity }
  }

  async #next(): Promise<Header | null> {
    await this.#source.gather(MAX_HEADER_BYTES)
    return this.#readHeader()
  }

  /** The next header in the open element, or null at its end. As many bytes must be buffered as it may have. */
  #readHeader(): Header | null {
    const source = this.#source
    const { indefinite, limit, start } = this.#top()
    const at = source.position
    if (!indefinite && at >= limit) return null
    const tag = source.peek(0)
    const first = source.peek(1)
    if (tag === undefined || first === undefined || source.position + 2 > limit)
      throw this.#break('truncated')
    if ((tag & 0x1f) === 0x1f) throw this.#break('tag number out of range')
    const octets = first > 0x80 ? first - 0x80 : 0
    if (first === 0x80 && (tag & CONSTRUCTED) === 0)
      throw this.#break('primitive element of indefinite length')
    if (octets > MAX_LENGTH_OCTETS) throw this.#break('length out of range')
    if (source.position + 2 + octets > limit || source.buffered < 2 + octets) throw this.#break('truncated')
    const raw = source.take(2 + octets)
    const length = octets > 0 ? raw.readUIntBE(2, octets) : first === 0x80 ? INDEFINITE : first
    if (source.position + Math.max(0, length) > limit) throw this.#break('truncated')
    if (length === 0 && (!indefinite || tag !== 0 || at === start)) this.#noteEmpty(at)
    if (indefinite && tag === 0) {
      if (length === 0) return null
      this.#claimedEnd = source.position + length
      throw this.#break('malformed end of contents')
    }
    if (length === INDEFINITE && indefinite && this.#frames.length >= MAX_DEPTH)
      throw this.#break('nested too deeply')
    return { tag, length, raw }
  }

  #noteEmpty(at: number): void {
    if (++this.#empty > emptyElementsAllowed(at)) throw this.#break('too many elements')
  }

  #break(reason: string): Asn1Error {
    this.#broken = true
    return new Asn1Error(reason)
  }

  #enter({ tag, length }: Header): void {
    const indefinite = length === INDEFINITE
    const limit = indefinite ? this.#top().limit : this.#source.position + length
    this.#frames.push({ tag, indefinite, start: this.#source.position, limit })
  }

  /** Reads the rest of the open element, which it closes; kept are its bytes when there is where to. */
  async #finish(kept: Buffer[] | null): Promise<void> {
    const depth = this.#frames.length
    const start = this.#source.position
    while (this.#frames.length >= depth) {
      const { indefinite, limit } = this.#top()
      if (indefinite) {
        const header = await this.#next()
        kept?.push(header?.raw ?? Buffer.alloc(2))
        if (header === null) this.#frames.pop()
        else this.#enter(header)
      } else {
        if (kept !== null && limit - start > MAX_STRUCTURE_BYTES)
          throw new Asn1Error('a structure is too large')
        for await (const piece of this.#contents(limit)) kept?.push(piece)
        this.#frames.pop()
      }
      if (kept !== null && this.#source.position - start > MAX_STRUCTURE_BYTES) {
        throw new Asn1Error('a structure is too large')
      }
    }
  }

  async *#contents(limit: number): AsyncGenerator<Buffer> {
    while (this.#source.position < limit) {
      const piece = await this.#source.next(limit - this.#source.position)
      if (piece === null) {
        this.#brokenDepth = 0
        throw new Asn1Error('truncated')
      }
      yield piece
    }
  }
}
