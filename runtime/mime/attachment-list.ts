import { isSeveralFilesType, isStart, MAX_ATTACHMENTS, partFacts, type PartFacts } from './attachment.ts'
import { MimeError } from './mime-error.ts'
import { PartSplitter } from './part-splitter.ts'

/** A file of a message with several. */
export interface Attachment extends PartFacts {
  /** Where it stands among the parts, from 1. */
  readonly part: number
  /** Of the content, without transfer encoding. */
  readonly sizeBytes: number
}

/** Tells what files a message has, while its content passes by. */
export class AttachmentList {
  readonly #splitter: PartSplitter
  readonly #attachments: Attachment[] = []
  #current: PartFacts = { fileName: null, contentType: '' }
  #sizeBytes = 0
  /** Where the root is in the list. */
  #root = 0

  /** Null for content that is one file. @throws MimeError when there is no boundary to tell several by */
  static of(contentType: string): AttachmentList | null {
    return isSeveralFilesType(contentType) ? new AttachmentList(contentType) : null
  }

  private constructor(contentType: string) {
    this.#splitter = new PartSplitter(contentType, MAX_ATTACHMENTS, {
      begin: (headers) => {
        this.#current = partFacts(headers)
        this.#sizeBytes = 0
        if (this.#root === 0 && isStart(contentType, headers)) this.#root = this.#attachments.length
      },
      bytes: ({ length }) => (this.#sizeBytes += length),
      end: () => {
        const part = this.#attachments.length + 1
        this.#attachments.push({ part, ...this.#current, sizeBytes: this.#sizeBytes })
      },
    })
  }

  /** @throws MimeError when the content is malformed, or has too many parts */
  write(chunk: Buffer): void {
    this.#splitter.write(chunk)
  }

  /** The files, the root first. To be called once. @throws MimeError when the content is cut off, or has no parts */
  end(): readonly Attachment[] {
    this.#splitter.end()
    const [root] = this.#attachments.splice(this.#root, 1)
    if (root === undefined) throw new MimeError('no parts')
    return [root, ...this.#attachments]
  }
}
