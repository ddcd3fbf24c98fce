/**
 * MIME entities (RFC 2045, RFC 2046) as bytes: what was received is never serialised again, since signatures
 * and MICs are over exactly these bytes.
 */
import { HeaderFields, parseHeaderBlock } from './headers.ts'
import type { HeaderList } from './headers.ts'
import { parseParameters } from './parameters.ts'

const LF = 0x0a
const CR = 0x0d
const DASH = 0x2d
const EQUALS = 0x3d
const CRLF = Buffer.from('\r\n')
/** The longest text that is decoded in one piece; a JavaScript string ends at 512 MiB. */
const MAX_BASE64_BYTES = 268_435_456

/** Bytes that are not the MIME structure expected. */
export class MimeError extends Error {
  override readonly name = 'MimeError'
}

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

/**
 * The raw parts of a multipart body, at most `maxParts`. The line break before a delimiter belongs to the
 * delimiter (RFC 2046 §5.1.1); preamble and epilogue are dropped, the final line break may be missing.
 * @throws MimeError without boundary, without closing delimiter, or with too many parts
 */
export function splitMultipart(contentType: string, body: Buffer, maxParts: number): Buffer[] {
  const boundary = parseParameters(contentType).parameters.get('boundary')
  if (boundary === undefined || boundary === '' || boundary.length > 200) throw new MimeError('no boundary')
  const delimiter = Buffer.from(`--${boundary}`, 'latin1')
  const parts: Buffer[] = []
  let partStart = -1
  for (let at = body.indexOf(delimiter); at >= 0; at = body.indexOf(delimiter, at + 1)) {
    const found = readDelimiter(body, at, at + delimiter.length)
    if (found === null) continue
    if (partStart >= 0) parts.push(body.subarray(partStart, Math.max(partStart, found.contentEnd)))
    if (found.closing) return parts
    if (parts.length >= maxParts) throw new MimeError('too many parts')
    partStart = found.next
  }
  throw new MimeError('no closing delimiter')
}

/** A delimiter stands at the start of a line and is followed by `--` or by nothing but white space. */
function readDelimiter(
  body: Buffer,
  start: number,
  end: number,
): { contentEnd: number; closing: boolean; next: number } | null {
  if (start > 0 && body[start - 1] !== LF) return null
  const contentEnd = start > 1 && body[start - 2] === CR ? start - 2 : start - 1
  if (body[end] === DASH && body[end + 1] === DASH) return { contentEnd, closing: true, next: end + 2 }
  let next = end
  while (body[next] === 0x20 || body[next] === 0x09) next++
  if (body[next] === CR) next++
  return body[next] === LF ? { contentEnd, closing: false, next: next + 1 } : null
}

/**
 * The body without its Content-Transfer-Encoding. A missing one means binary in AS2 (RFC 4130 §5.2.1).
 * @throws MimeError for an unknown encoding
 */
export function decodeBody(entity: Entity): Buffer {
  const encoding = entity.headers.get('content-transfer-encoding')?.toLowerCase() ?? 'binary'
  switch (encoding) {
    case '':
    case '7bit':
    case '8bit':
    case 'binary':
      return entity.body
    case 'base64':
      return fromBase64(entity.body)
    case 'quoted-printable':
      return fromQuotedPrintable(entity.body)
    default:
      throw new MimeError('unknown Content-Transfer-Encoding')
  }
}

/** The body of a CMS entity: base64 is taken for what it is, declared or not, as is binary. */
export function cmsBytes(entity: Entity): Buffer {
  const { body } = entity
  // A SEQUENCE whose length is long or indefinite, or short and followed by the type's identifier: no base64.
  const isBer = body[0] === 0x30 && ((body[1] ?? 0) >= 0x80 || body[2] === 0x06)
  return isBer ? body : fromBase64(body)
}

function fromBase64(body: Buffer): Buffer {
  if (body.length > MAX_BASE64_BYTES) throw new MimeError('too large for base64')
  return Buffer.from(body.toString('latin1'), 'base64')
}

/** RFC 2045 §6.7; what is malformed stays as it is. */
function fromQuotedPrintable(body: Buffer): Buffer {
  const decoded = Buffer.allocUnsafe(body.length)
  let length = 0
  for (let at = 0; at < body.length; at++) {
    const octet = body[at] ?? 0
    if (octet === EQUALS) {
      const breakBytes = body[at + 1] === LF ? 1 : body[at + 1] === CR && body[at + 2] === LF ? 2 : 0
      const digits = body.toString('latin1', at + 1, at + 3)
      if (breakBytes > 0) {
        at += breakBytes
        continue
      }
      if (/^[0-9a-f]{2}$/i.test(digits)) {
        decoded[length++] = Number.parseInt(digits, 16)
        at += 2
        continue
      }
    }
    decoded[length++] = octet
  }
  return decoded.subarray(0, length)
}

/** The bytes with every lone LF made CRLF; the same buffer when there is none. */
export function toCrlf(bytes: Buffer): Buffer {
  const chunks: Buffer[] = []
  let start = 0
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (at > 0 && bytes[at - 1] === CR) continue
    chunks.push(bytes.subarray(start, at), CRLF)
    start = at + 1
  }
  return start === 0 ? bytes : Buffer.concat([...chunks, bytes.subarray(start)])
}
