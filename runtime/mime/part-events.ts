import { MAX_ATTACHMENTS } from './attachment.ts'
import type { HeaderFields } from './headers.ts'
import { PartSplitter } from './part-splitter.ts'

/** What comes of a multipart body: each part begins, has bytes and ends. */
export type PartEvent =
  | { readonly kind: 'begin'; readonly headers: HeaderFields }
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'end' }

/**
 * The parts of a multipart body while it is read, without their transfer encoding. Of the body no more is held than the
 * source gives at a time. Its failures are the source's, and MimeErrors for what is malformed.
 */
export async function* partEvents(
  contentType: string,
  source: AsyncIterable<Buffer>,
): AsyncGenerator<PartEvent, void, void> {
  const events: PartEvent[] = []
  const splitter = new PartSplitter(contentType, MAX_ATTACHMENTS, {
    begin: (headers) => events.push({ kind: 'begin', headers }),
    bytes: (bytes) => events.push({ kind: 'bytes', bytes }),
    end: () => events.push({ kind: 'end' }),
  })
  for await (const chunk of source) {
    splitter.write(chunk)
    yield* events.splice(0)
  }
  splitter.end()
  yield* events.splice(0)
}
