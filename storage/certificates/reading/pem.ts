import { UnreadableError } from './refusal.ts'

/** A block of PEM (RFC 7468), or of the older form with headers (RFC 1421). */
export interface PemBlock {
  /** `CERTIFICATE`, `PRIVATE KEY` and so on. */
  readonly label: string
  readonly bytes: Buffer
  /** What an encrypted key of the older form says of its cipher: `DEK-Info`; null for content that is as it is. */
  readonly encryption: string | null
}

/** The text is no PEM that we read. */
class PemError extends UnreadableError {
  override readonly name = 'PemError'
}

const MOST_BLOCKS = 2000
const BEGIN = '-----BEGIN '
const END = '-----END '
const DASHES = '-----'
const BASE64 = /^\s*[A-Za-z0-9+/][A-Za-z0-9+/\s]*(?:=\s*){0,2}$/
/** RFC 1421 §4.4: lines with a colon before the content. */
const HEADER = /^\s*([A-Za-z0-9-]{1,40}:[^\r\n]{0,500})(?=[\r\n])/
const MOST_HEADERS = 20
const LABEL = /^[A-Z0-9 #]{1,40}$/

/**
 * The text that the bytes are, when they are PEM: also in UTF-16, as an editor of Windows saves it. Null otherwise.
 */
export function pemTextOf(bytes: Buffer): string | null {
  if (bytes.includes(BEGIN)) return bytes.toString('latin1')
  const swapped = bytes[0] === 0xfe && bytes[1] === 0xff
  const wide = swapped ? Buffer.from(bytes.subarray(0, bytes.length & ~1)).swap16() : bytes
  return wide.includes(BEGIN, 0, 'utf16le') ? wide.toString('utf16le') : null
}

/**
 * The blocks in order; text around them is ignored. The text is passed once, however many ends or beginnings it has.
 * Throws a PemError for a block without end, within another or with other content than base64.
 */
export function readPem(text: string): readonly PemBlock[] {
  const blocks: PemBlock[] = []
  let at = text.indexOf(BEGIN)
  while (at !== -1) {
    const named = at + BEGIN.length
    const from = text.indexOf(DASHES, named)
    const label = from === -1 ? '' : text.slice(named, from)
    if (!LABEL.test(label)) {
      at = text.indexOf(BEGIN, named)
      continue
    }
    const to = text.indexOf(END, from)
    if (to === -1) throw new PemError(`the block ${label} has no end`)
    at = text.indexOf(BEGIN, from)
    if (!text.startsWith(`${label}${DASHES}`, to + END.length) || (at !== -1 && at < to)) {
      throw new PemError(`the block ${label} has no end of its own`)
    }
    blocks.push(readBlock(label, text.slice(from + DASHES.length, to)))
    if (blocks.length > MOST_BLOCKS) throw new PemError('it has too many blocks')
  }
  return blocks
}

function readBlock(label: string, inner: string): PemBlock {
  const headers: string[] = []
  let body = inner
  for (let header = HEADER.exec(body); header !== null; header = HEADER.exec(body)) {
    headers.push(header[1] ?? '')
    if (headers.length > MOST_HEADERS) throw new PemError(`the block ${label} has too many headers`)
    body = body.slice(header[0].length)
  }
  const bytes = base64Of(body)
  if (bytes === null) throw new PemError(`the block ${label} is not base64`)
  const encrypted = headers.some((line) => /^Proc-Type:.*ENCRYPTED/i.test(line))
  const cipher = headers.find((line) => /^DEK-Info:/i.test(line))
  return { label, bytes, encryption: encrypted ? (cipher ?? '').replace(/^DEK-Info:\s*/i, '') : null }
}

/** DER as base64 alone, as people paste it: PEM that lost its first and last line. Null for anything else. */
export function bareBase64(bytes: Buffer): Buffer | null {
  // A DER sequence of more than 127 bytes begins so.
  const start = bytes.subarray(0, 100).toString('latin1').trimStart()
  return start.startsWith('MI') ? base64Of(bytes.toString('latin1')) : null
}

/** Line ends may stand anywhere. */
function base64Of(text: string): Buffer | null {
  return BASE64.test(text) ? Buffer.from(text, 'base64') : null
}

/** PEM with lines of 64 characters. */
export function writePem(label: string, bytes: Uint8Array): string {
  const base64 = Buffer.from(bytes).toString('base64')
  const lines = base64.match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
