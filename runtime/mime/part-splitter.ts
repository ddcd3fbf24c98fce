import { parseEntity } from './entity.ts'
import { MAX_BLOCK_BYTES, type HeaderFields } from './headers.ts'
import { boundaryOf, MultipartScanner } from './multipart-scanner.ts'
import { decoderFor, type TransferDecoder } from './transfer-decoding.ts'

const LF = 0x0a
const CR = 0x0d

/** Told of each part of a multipart body: its headers, its content without transfer encoding, and its end. */
export interface ContentVisitor {
  readonly begin: (headers: HeaderFields) => void
  readonly bytes: (bytes: Buffer) => void
  readonly end: () => void
}

/**
 * Reads the parts of a multipart body while it comes in. Beside the scanner's line it holds the headers of one part, at
 * most 64 KiB: what goes on without a blank line is content without headers.
 */
export class PartSplitter {
  readonly #visitor: ContentVisitor
  readonly #scanner: MultipartScanner
  /** Of a part whose content has not begun. */
  #head: HeadBytes | null = null
  #decoder: TransferDecoder = decoderFor(null)

  /** @throws MimeError when the content type has no boundary */
  constructor(contentType: string, maxParts: number, visitor: ContentVisitor) {
    this.#visitor = visitor
    this.#scanner = new MultipartScanner({
      boundary: boundaryOf(contentType),
      maxParts,
      visitor: {
        begin: () => (this.#head = new HeadBytes()),
        bytes: (bytes) => this.#take(bytes),
        end: () => this.#end(),
      },
    })
  }

  /** @throws MimeError for too many parts */
  write(chunk: Buffer): void {
    this.#scanner.write(chunk)
  }

  /** To be called once, behind the last byte. @throws MimeError when the body is cut off */
  end(): void {
    this.#scanner.end()
  }

  #take(bytes: Buffer): void {
    if (this.#head === null) return this.#hand(this.#decoder.write(bytes))
    if (this.#head.add(bytes)) this.#beginContent(this.#head)
  }

  #beginContent(head: HeadBytes): void {
    this.#head = null
    const { headers, body } = parseEntity(head.bytes(), 'part')
    this.#decoder = decoderFor(headers.get('content-transfer-encoding'))
    this.#visitor.begin(headers)
    this.#hand(this.#decoder.write(body))
  }

  #end(): void {
    if (this.#head !== null) this.#beginContent(this.#head)
    this.#hand(this.#decoder.end())
    this.#visitor.end()
  }

  #hand(bytes: Buffer): void {
    if (bytes.length > 0) this.#visitor.bytes(bytes)
  }
}

/** The beginning of a part up to the blank line behind its headers, and what came with it. */
export class HeadBytes {
  readonly #chunks: Buffer[] = []
  #length = 0
  /** Of the line that has begun: how many bytes, and whether the only one is a CR. */
  #lineBytes = 0
  #isLoneCr = false

  /** Whether the headers are complete, or there are none. */
  add(bytes: Buffer): boolean {
    this.#chunks.push(bytes)
    this.#length += bytes.length
    for (const octet of bytes) {
      if (octet === LF) {
        if (this.#lineBytes === 0 || (this.#lineBytes === 1 && this.#isLoneCr)) return true
        this.#lineBytes = 0
      } else {
        this.#lineBytes += 1
        this.#isLoneCr = octet === CR
      }
    }
    return this.#length > MAX_BLOCK_BYTES
  }

  bytes(): Buffer {
    const [only] = this.#chunks
    if (this.#chunks.length === 1 && only !== undefined) return only
    return Buffer.concat(this.#chunks, this.#length)
  }
}
