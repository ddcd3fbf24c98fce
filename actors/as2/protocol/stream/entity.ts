/** A MIME entity (RFC 2045) whose body streams; its header block is read into memory, which is bounded. */
import { HeaderFields, MAX_BLOCK_BYTES, parseHeaderBlock } from '../../../../runtime/mime/headers.ts'
import type { ByteSource } from './byte-source.ts'

export interface StreamedEntity {
  readonly headers: HeaderFields
  /** The header block with its blank line as it came; empty where there is none, as with the headers of HTTP. */
  readonly head: Buffer
  readonly body: ByteSource
}

const LF = 0x0a

/** The entity that the bytes are, by the rules of `parseEntity` in mime.ts. */
export async function readEntity(source: ByteSource, place: 'part' | 'payload'): Promise<StreamedEntity> {
  const start = await readStart(source)
  const block = parseHeaderBlock(start)
  const isEntity =
    block !== null && (block.fields.describeContent || (place === 'part' && block.ended && start.length > 0))
  const headBytes = isEntity ? block.bodyStart : 0
  source.unshift(start.subarray(headBytes))
  const headers = isEntity ? block.fields : new HeaderFields([])
  return { headers, head: start.subarray(0, headBytes), body: source }
}

/** So many of the first bytes that a header block ends in them, or begins none. */
async function readStart(source: ByteSource): Promise<Buffer> {
  const start = Buffer.alloc(MAX_BLOCK_BYTES + 1)
  let length = 0
  while (length < start.length) {
    const chunk = await source.next(start.length - length)
    if (chunk === null) break
    const searchFrom = Math.max(0, length - 3)
    length += chunk.copy(start, length)
    if (hasBlankLine(start.subarray(0, length), searchFrom)) break
  }
  return start.subarray(0, length)
}

function hasBlankLine(bytes: Buffer, from: number): boolean {
  if (bytes[0] === LF || (bytes[0] === 0x0d && bytes[1] === LF)) return true
  return bytes.indexOf('\n\n', from, 'latin1') >= 0 || bytes.indexOf('\n\r\n', from, 'latin1') >= 0
}
