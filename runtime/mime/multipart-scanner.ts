/** The bodies of multipart entities (RFC 2046 §5.1.1), chunk by chunk: where parts begin and end. */
import { MimeError } from './mime-error.ts'
import { parseParameters } from './parameters.ts'

const LF = 0x0a
const CR = 0x0d
const DASH = 0x2d
/** RFC 2046 allows 70 characters; some products write more. */
const BOUNDARY = /^\P{Cc}{1,200}$/u
/** White space behind a boundary, which gateways may have added (RFC 2046 §5.1.1). */
const MAX_PADDING_BYTES = 4_096
const NOTHING = Buffer.alloc(0)

/** Told of each part in order: its beginning, its bytes as received, headers among them, and its end. */
export interface PartVisitor {
  readonly begin: () => void
  /** Part of the caller's chunk, or of what was held back of one. */
  readonly bytes: (bytes: Buffer) => void
  readonly end: () => void
  /** Told of all other bytes: preamble, delimiters and epilogue. */
  readonly around?: (bytes: Buffer) => void
}

export interface MultipartOptions {
  readonly boundary: string
  readonly maxParts: number
  readonly visitor: PartVisitor
}

/** The boundary that a content type names. @throws MimeError when it names none that can be used */
export function boundaryOf(contentType: string): string {
  const boundary = parseParameters(contentType).parameters.get('boundary')
  if (boundary === undefined || !BOUNDARY.test(boundary)) throw new MimeError('no boundary')
  return boundary
}

/**
 * Cuts a multipart body into its parts. The line break before a delimiter belongs to the delimiter, preamble and
 * epilogue are dropped, and the final line break may be missing. No more is held back than a line that may be a
 * delimiter; all else is handed on as it comes in, without a copy.
 */
export class MultipartScanner {
  readonly #delimiter: Buffer
  readonly #maxParts: number
  readonly #visitor: PartVisitor
  #state: 'preamble' | 'part' | 'epilogue' = 'preamble'
  #parts = 0
  #held: Buffer = NOTHING
  /** Whether a line begins where the held bytes, or else the next ones, begin. */
  #atLineStart = true

  constructor({ boundary, maxParts, visitor }: MultipartOptions) {
    this.#delimiter = Buffer.from(`--${boundary}`, 'latin1')
    this.#maxParts = maxParts
    this.#visitor = visitor
  }

  /** @throws MimeError for too many parts */
  write(chunk: Buffer): void {
    if (this.#state === 'epilogue') this.#visitor.around?.(chunk)
    if (this.#state === 'epilogue' || chunk.length === 0) return
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    this.#held = NOTHING
    const keptFrom = this.#scan(bytes)
    if (keptFrom > 0) this.#atLineStart = bytes[keptFrom - 1] === LF
    this.#held = bytes.subarray(keptFrom)
  }

  /** To be called once, behind the last byte. @throws MimeError without a closing delimiter */
  end(): void {
    if (this.#state !== 'epilogue') throw new MimeError('no closing delimiter')
  }

  /** Hands on what is certain; answers from where on the bytes are to be held. */
  #scan(bytes: Buffer): number {
    let from = 0
    let search = 0
    for (;;) {
      const at = bytes.indexOf(this.#delimiter, search)
      if (at < 0) break
      const found = this.#isLineStart(bytes, at) ? readDelimiter(bytes, at + this.#delimiter.length) : 'none'
      if (found === 'none') {
        search = at + 1
        continue
      }
      const contentEnd = Math.max(from, lineBreakBefore(bytes, at))
      this.#hand(bytes, from, contentEnd)
      if (found === 'unsure') return contentEnd
      if (this.#state === 'part') this.#visitor.end()
      this.#visitor.around?.(bytes.subarray(contentEnd, found.closing ? bytes.length : found.next))
      if (found.closing) {
        this.#state = 'epilogue'
        return bytes.length
      }
      this.#begin()
      from = found.next
      search = found.next
    }
    const keptFrom = Math.max(from, this.#uncertainFrom(bytes))
    this.#hand(bytes, from, keptFrom)
    return keptFrom
  }

  #begin(): void {
    if (this.#parts >= this.#maxParts) throw new MimeError('too many parts')
    this.#parts += 1
    this.#state = 'part'
    this.#visitor.begin()
  }

  #hand(bytes: Buffer, start: number, end: number): void {
    if (end <= start) return
    if (this.#state === 'part') this.#visitor.bytes(bytes.subarray(start, end))
    else this.#visitor.around?.(bytes.subarray(start, end))
  }

  #isLineStart(bytes: Buffer, at: number): boolean {
    return at === 0 ? this.#atLineStart : bytes[at - 1] === LF
  }

  /** Where the end begins that may be a line break and the start of a delimiter. */
  #uncertainFrom(bytes: Buffer): number {
    const windowStart = Math.max(0, bytes.length - this.#delimiter.length)
    const lf = bytes.subarray(windowStart).lastIndexOf(LF)
    const lineStart = lf < 0 ? windowStart : windowStart + lf + 1
    const line = bytes.subarray(lineStart)
    const mayBeDelimiter =
      this.#isLineStart(bytes, lineStart) && this.#delimiter.subarray(0, line.length).equals(line)
    if (mayBeDelimiter) return lineBreakBefore(bytes, lineStart)
    return bytes.at(-1) === CR ? bytes.length - 1 : bytes.length
  }
}

/** Where the line break begins that ends before `at`; `at` itself at the very beginning. */
function lineBreakBefore(bytes: Buffer, at: number): number {
  if (at === 0) return 0
  return at > 1 && bytes[at - 2] === CR ? at - 2 : at - 1
}

/** What follows a boundary at the start of a line: `--`, or nothing but white space up to the end of the line. */
function readDelimiter(
  bytes: Buffer,
  end: number,
): { readonly closing: boolean; readonly next: number } | 'none' | 'unsure' {
  if (bytes[end] === DASH) {
    if (end + 1 >= bytes.length) return 'unsure'
    return bytes[end + 1] === DASH ? { closing: true, next: end + 2 } : 'none'
  }
  let next = end
  while ((bytes[next] === 0x20 || bytes[next] === 0x09) && next - end <= MAX_PADDING_BYTES) next++
  if (bytes[next] === CR) next++
  if (next >= bytes.length) return 'unsure'
  return bytes[next] === LF ? { closing: false, next: next + 1 } : 'none'
}
