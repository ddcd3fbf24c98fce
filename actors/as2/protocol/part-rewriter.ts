/**
 * Several files for a partner that wants them otherwise than they are kept: headers of parts and, for base64, their
 * bodies are written anew. Boundary, preamble and epilogue stay, as do parts that already are as they should be. The
 * same content always gives the same bytes, however it comes in.
 */
import { MAX_ATTACHMENTS } from '../../../runtime/mime/attachment.ts'
import { formatEntity, parseEntity } from '../../../runtime/mime/entity.ts'
import type { HeaderFields, HeaderList } from '../../../runtime/mime/headers.ts'
import { MimeError } from '../../../runtime/mime/mime-error.ts'
import { boundaryOf, MultipartScanner } from '../../../runtime/mime/multipart-scanner.ts'
import { parseParameters, withoutParameter } from '../../../runtime/mime/parameters.ts'
import { HeadBytes } from '../../../runtime/mime/part-splitter.ts'
import { decoderFor, encodingOf, type TransferDecoder } from '../../../runtime/mime/transfer-decoding.ts'
import { Base64Encoder } from './base64.ts'
import { ComposeError } from './compose-error.ts'

export interface PartChanges {
  /** Headers do not tell how files are called. */
  readonly removesNames: boolean
  readonly encodesBase64: boolean
}

const NOTHING = Buffer.alloc(0)

/** The content of several files with these changes. @throws ComposeError for what is no multipart, or is cut off */
export async function* rewriteParts(
  contentType: string,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
  changes: PartChanges,
): AsyncGenerator<Buffer, void, void> {
  try {
    const rewriter = new PartRewriter(contentType, changes)
    for await (const chunk of content) yield* rewriter.write(chunk)
    rewriter.end()
  } catch (error) {
    if (!(error instanceof MimeError)) throw error
    throw new ComposeError(`the files of the message cannot be told apart: ${error.message}`)
  }
}

class PartRewriter {
  readonly #changes: PartChanges
  readonly #scanner: MultipartScanner
  readonly #made: Buffer[] = []
  /** Of a part whose body has not begun. */
  #head: HeadBytes | null = null
  /** Null for a body that goes as it is. */
  #recoding: { readonly decoder: TransferDecoder; readonly encoder: Base64Encoder } | null = null

  constructor(contentType: string, changes: PartChanges) {
    this.#changes = changes
    this.#scanner = new MultipartScanner({
      boundary: boundaryOf(contentType),
      maxParts: MAX_ATTACHMENTS,
      visitor: {
        begin: () => (this.#head = new HeadBytes()),
        bytes: (bytes) => this.#take(bytes),
        end: () => this.#end(),
        around: (bytes) => this.#give(bytes),
      },
    })
  }

  /** What is certain with this chunk. Nothing of the chunk itself is kept where a piece given is all of it. */
  write(chunk: Buffer): readonly Buffer[] {
    this.#scanner.write(chunk)
    return this.#made.splice(0)
  }

  /** To be called once, behind the last chunk: all has been given by then. */
  end(): void {
    this.#scanner.end()
  }

  #take(bytes: Buffer): void {
    if (this.#head === null) this.#body(bytes)
    else if (this.#head.add(bytes)) this.#beginBody(this.#head)
  }

  #beginBody(head: HeadBytes): void {
    this.#head = null
    const { headers, body, raw } = parseEntity(head.bytes(), 'part')
    const encodes = this.#changes.encodesBase64 && isToBeEncoded(headers)
    this.#recoding = encodes
      ? { decoder: decoderFor(headers.get('content-transfer-encoding')), encoder: new Base64Encoder() }
      : null
    const list = changedHeaders(headers.list, { ...this.#changes, encodesBase64: encodes })
    const isSame = JSON.stringify(list) === JSON.stringify(headers.list)
    this.#give(isSame ? raw.subarray(0, raw.length - body.length) : formatEntity(list, NOTHING))
    this.#body(body)
  }

  #body(bytes: Buffer): void {
    if (this.#recoding === null) return this.#give(bytes)
    const { decoder, encoder } = this.#recoding
    this.#give(encoder.update(decoder.write(bytes)))
  }

  #end(): void {
    if (this.#head !== null) this.#beginBody(this.#head)
    if (this.#recoding === null) return
    const { decoder, encoder } = this.#recoding
    this.#give(encoder.update(decoder.end()))
    this.#give(encoder.final())
    this.#recoding = null
  }

  #give(bytes: Buffer): void {
    if (bytes.length > 0) this.#made.push(bytes)
  }
}

/**
 * What consists of entities itself must not be encoded (RFC 2045 §6.4), and what is base64 is so already. What is in an
 * unknown encoding can only be left in it.
 */
function isToBeEncoded(headers: HeaderFields): boolean {
  const { value } = parseParameters(headers.get('content-type') ?? '')
  const encoding = encodingOf(headers.get('content-transfer-encoding'))
  return !/^(?:multipart|message)\//.test(value) && encoding !== 'base64' && encoding !== 'unknown'
}

function changedHeaders(list: HeaderList, { removesNames, encodesBase64 }: PartChanges): HeaderList {
  const named = removesNames ? list.flatMap(([name, value]) => withoutName(name, value)) : list
  if (!encodesBase64) return named
  const others = named.filter((field) => !isTransferEncoding(field))
  const at = named.findIndex(isTransferEncoding)
  return others.toSpliced(at < 0 ? others.length : at, 0, ['Content-Transfer-Encoding', 'base64'])
}

function isTransferEncoding([name]: HeaderList[number]): boolean {
  return name.toLowerCase() === 'content-transfer-encoding'
}

/** Of a disposition its kind stays alone, since names come in odd forms; a description is free text. */
function withoutName(name: string, value: string): HeaderList {
  switch (name.toLowerCase()) {
    case 'content-type':
      return [[name, withoutParameter(value, 'name')]]
    case 'content-disposition': {
      const kind = parseParameters(value).value
      return [[name, /^[a-z-]+$/.test(kind) ? kind : 'attachment']]
    }
    case 'content-description':
      return []
    default:
      return [[name, value]]
  }
}
