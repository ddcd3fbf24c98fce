/**
 * MIME entities (RFC 2045, RFC 2046) as bytes: what was received is never serialised again, since signatures
 * and MICs are over exactly these bytes.
 */
import { HeaderFields, parseHeaderBlock, type HeaderList } from './headers.ts'

export interface Entity {
  readonly headers: HeaderFields
  readonly body: Buffer
  /** Headers, blank line and body as received; the body alone where the headers are those of HTTP. */
  readonly raw: Buffer
}

/**
 * Reads an entity. Bytes without a header block are an entity without headers, as some products send:
 * a `part` of a multipart may begin with any headers or with a blank line, a `payload` (what was encrypted or
 * compressed) must name its content, else it is the content.
 */
export function parseEntity(raw: Buffer, place: 'part' | 'payload'): Entity {
  const block = parseHeaderBlock(raw)
  const isEntity =
    block !== null && (block.fields.describeContent || (place === 'part' && block.ended && raw.length > 0))
  if (!isEntity) return { headers: new HeaderFields([]), body: raw, raw }
  return { headers: block.fields, body: raw.subarray(block.bodyStart), raw }
}

/** The entity's bytes: headers unfolded, CRLF, blank line, body. */
export function formatEntity(headers: HeaderList, body: Buffer): Buffer {
  const block = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([Buffer.from(`${block}\r\n`, 'latin1'), body])
}
