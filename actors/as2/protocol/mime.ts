/**
 * MIME entities (RFC 2045, RFC 2046) as bytes: what was received is never serialised again, since signatures
 * and MICs are over exactly these bytes.
 */
import { parseEntity, formatEntity, type Entity } from '../../../runtime/mime/entity.ts'
import { MimeError } from '../../../runtime/mime/mime-error.ts'
import { boundaryOf, MultipartScanner } from '../../../runtime/mime/multipart-scanner.ts'
import { AS_IT_IS, decoderFor, encodingOf } from '../../../runtime/mime/transfer-decoding.ts'
import type { TransferDecoder } from '../../../runtime/mime/transfer-decoding.ts'

export { formatEntity, MimeError, parseEntity, type Entity }

const LF = 0x0a
const CR = 0x0d
/** The longest text that is decoded in one piece; a JavaScript string ends at 512 MiB. */
const MAX_BASE64_BYTES = 268_435_456
/** So much is decoded at a time. */
const DECODED_SLICE_BYTES = 4_194_304

/**
 * The raw parts of a multipart body, at most `maxParts`. The line break before a delimiter belongs to the
 * delimiter (RFC 2046 §5.1.1); preamble and epilogue are dropped, the final line break may be missing.
 * @throws MimeError without boundary, without closing delimiter, or with too many parts
 */
export function splitMultipart(contentType: string, body: Buffer, maxParts: number): Buffer[] {
  const parts: Buffer[] = []
  let part = body.subarray(0, 0)
  const visitor = {
    begin: () => (part = body.subarray(0, 0)),
    // The whole body is one chunk, so that each part comes in one piece.
    bytes: (bytes: Buffer) => (part = bytes),
    end: () => parts.push(part),
  }
  const scanner = new MultipartScanner({ boundary: boundaryOf(contentType), maxParts, visitor })
  scanner.write(body)
  scanner.end()
  return parts
}

/**
 * The body without its Content-Transfer-Encoding. A missing one means binary in AS2 (RFC 4130 §5.2.1), and what is in an
 * unknown one stays as it is.
 */
export function decodeBody({ headers, body }: Entity): Buffer {
  return decoded(body, decoderFor(headers.get('content-transfer-encoding')))
}

function decoded(body: Buffer, decoder: TransferDecoder): Buffer {
  if (decoder === AS_IT_IS) return body
  if (body.length <= DECODED_SLICE_BYTES) return joined([decoder.write(body), decoder.end()])
  const chunks: Buffer[] = []
  for (let at = 0; at < body.length; at += DECODED_SLICE_BYTES)
    chunks.push(decoder.write(body.subarray(at, at + DECODED_SLICE_BYTES)))
  return joined([...chunks, decoder.end()])
}

function joined(chunks: readonly Buffer[]): Buffer {
  const [only, ...others] = chunks.filter((chunk) => chunk.length > 0)
  if (only === undefined) return Buffer.alloc(0)
  return others.length === 0 ? only : Buffer.concat([only, ...others])
}

/**
 * The body of a CMS entity: base64 is taken for what it is, declared or not, as is binary. Quoted-printable, which may be
 * both by its looks, must be declared.
 */
export function cmsBytes({ headers, body }: Entity): Buffer {
  if (isBer(body[0], body[1], body[2])) return body
  const encoding = headers.get('content-transfer-encoding')
  return isQuotedCms(encoding, body[0]) ? decoded(body, decoderFor(encoding)) : fromBase64(body)
}

/** By its first octet: that of a SEQUENCE, quoted or as it is. In base64 it has another one. */
export function isQuotedCms(encoding: string | null, first?: number): boolean {
  return encodingOf(encoding) === 'quoted-printable' && (first === 0x3d || first === 0x30)
}

/** By its first bytes: a SEQUENCE whose length is long or indefinite, or short and followed by the type's identifier. */
export function isBer(first?: number, second?: number, third?: number): boolean {
  return first === 0x30 && ((second ?? 0) >= 0x80 || third === 0x06)
}

function fromBase64(body: Buffer): Buffer {
  if (body.length > MAX_BASE64_BYTES) throw new MimeError('too large for base64')
  return Buffer.from(body.toString('latin1'), 'base64')
}

/**
 * The bytes with every lone LF made CRLF; the same buffer when there is none. A body may be nothing but LFs: nothing is
 * made for each of them.
 */
export function toCrlf(bytes: Buffer): Buffer {
  const first = bytes.indexOf(LF)
  const loneLfs = first < 0 ? 0 : countLoneLfs(bytes, first)
  if (loneLfs === 0) return bytes
  const converted = Buffer.allocUnsafeSlow(bytes.length + loneLfs)
  let to = bytes.copy(converted, 0, 0, first)
  let before = first > 0 ? bytes[first - 1] : undefined
  for (let at = first; at < bytes.length; at++) {
    const octet = bytes[at] ?? 0
    if (octet === LF && before !== CR) converted[to++] = CR
    converted[to++] = octet
    before = octet
  }
  return converted
}

function countLoneLfs(bytes: Buffer, from: number): number {
  let count = 0
  for (let at = from; at < bytes.length; at++) if (bytes[at] === LF && bytes[at - 1] !== CR) count++
  return count
}
