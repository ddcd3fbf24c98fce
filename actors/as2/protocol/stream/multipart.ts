/** The parts of a multipart body (RFC 2046 §5.1.1), each to be read as it comes. */
import { boundaryOf, MultipartScanner } from '../../../../runtime/mime/multipart-scanner.ts'
import { ByteSource } from './byte-source.ts'

type PartEvent = 'begin' | 'end' | Buffer

export class MultipartStream {
  readonly #body: ByteSource
  readonly #scanner: MultipartScanner
  #events: PartEvent[] = []
  #at = 0

  /** `around` is told of all bytes that belong to no part. @throws MimeError when the content type has no boundary */
  constructor(contentType: string, body: ByteSource, maxParts: number, around: (bytes: Buffer) => void) {
    this.#body = body
    this.#scanner = new MultipartScanner({
      boundary: boundaryOf(contentType),
      maxParts,
      visitor: {
        begin: () => void this.#events.push('begin'),
        bytes: (bytes) => void this.#events.push(bytes),
        end: () => void this.#events.push('end'),
        around,
      },
    })
  }

  /**
   * The next part with its headers, which must be read to its end before the one behind it; null at the end.
   * @throws MimeError for too many parts or without a closing delimiter
   */
  async next(): Promise<ByteSource | null> {
    for (;;) {
      const event = await this.#event()
      if (event === null) return null
      if (event === 'begin') return new ByteSource(this.#part())
    }
  }

  async *#part(): AsyncGenerator<Buffer> {
    for (;;) {
      const event = await this.#event()
      if (event === null || event === 'end') return
      if (event !== 'begin') yield event
    }
  }

  async #event(): Promise<PartEvent | null> {
    while (this.#at >= this.#events.length) {
      this.#events = []
      this.#at = 0
      const chunk = await this.#body.next()
      if (chunk === null) {
        this.#scanner.end()
        return null
      }
      this.#scanner.write(chunk)
    }
    return this.#events[this.#at++] ?? null
  }
}
