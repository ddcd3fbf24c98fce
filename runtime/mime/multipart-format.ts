/** Several files as one multipart/related entity (RFC 6362 §3, RFC 2387). */
import { formatEntity } from './entity.ts'
import { formatAttachment } from './parameters.ts'

export interface FileForMultipart {
  /** Any Unicode; null for none. */
  readonly fileName: string | null
  readonly contentType: string
  readonly open: () => AsyncIterable<Buffer> | Promise<AsyncIterable<Buffer>>
}

/** The content type of the whole; the first file is the root. */
export function relatedContentType(boundary: string, rootType: string): string {
  const [type = ''] = rootType.split(';', 1)
  return `multipart/related; boundary="${boundary}"; type="${type.trim()}"`
}

/** The body. Each file is opened when its turn comes, and travels as it is. */
export async function* formatMultipart(
  boundary: string,
  files: readonly FileForMultipart[],
): AsyncGenerator<Buffer, void, void> {
  let lineBreak = ''
  for (const { fileName, contentType, open } of files) {
    const head = formatEntity(
      [
        ['Content-Type', contentType],
        ['Content-Transfer-Encoding', 'binary'],
        ['Content-Disposition', formatAttachment(fileName)],
      ],
      Buffer.alloc(0),
    )
    yield Buffer.concat([Buffer.from(`${lineBreak}--${boundary}\r\n`, 'latin1'), head])
    yield* await open()
    lineBreak = '\r\n'
  }
  yield Buffer.from(`${lineBreak}--${boundary}--\r\n`, 'latin1')
}
