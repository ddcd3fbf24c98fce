/** Bodies without their Content-Transfer-Encoding (RFC 2045 §6), chunk by chunk. */
const LF = 0x0a
const CR = 0x0d
const EQUALS = 0x3d
const NOTHING = Buffer.alloc(0)

export interface TransferDecoder {
  readonly write: (chunk: Buffer) => Buffer
  /** What the last chunks have left. */
  readonly end: () => Buffer
}

/** Of a body that is not encoded. */
export const AS_IT_IS: TransferDecoder = { write: (chunk) => chunk, end: () => NOTHING }

type TransferEncoding = 'identity' | 'base64' | 'quoted-printable' | 'unknown'

/**
 * The encoding that a field names; a missing one means binary in AS2 (RFC 4130 §5.2.1). Comments, and what some write
 * behind a semicolon, say nothing.
 */
export function encodingOf(field: string | null): TransferEncoding {
  const [name = ''] = (field ?? '').replace(/\([^()]*\)/g, '').split(';', 1)
  switch (name.trim().toLowerCase()) {
    case '':
    case '7bit':
    case '7-bit':
    case '8bit':
    case '8-bit':
    case 'binary':
      return 'identity'
    case 'base64':
      return 'base64'
    case 'quoted-printable':
      return 'quoted-printable'
    default:
      return 'unknown'
  }
}

/** The decoder of the encoding that a field names. What has an unknown one stays as it is (RFC 2045 §6.4). */
export function decoderFor(field: string | null): TransferDecoder {
  const encoding = encodingOf(field)
  if (encoding === 'base64') return new Base64Decoder()
  return encoding === 'quoted-printable' ? new QuotedPrintableDecoder() : AS_IT_IS
}

/** Characters outside of the alphabet are passed over; padding ends the data. */
class Base64Decoder implements TransferDecoder {
  #rest = ''
  #ended = false

  write(chunk: Buffer): Buffer {
    if (this.#ended) return NOTHING
    const text = chunk.toString('latin1')
    const padding = text.indexOf('=')
    this.#ended = padding >= 0
    const digits =
      this.#rest + (this.#ended ? text.slice(0, padding) : text).replace(/[^A-Za-z0-9+/_-]+/g, '')
    const whole = this.#ended ? digits.length : digits.length - (digits.length % 4)
    this.#rest = digits.slice(whole)
    return Buffer.from(digits.slice(0, whole), 'base64')
  }

  end(): Buffer {
    return Buffer.from(this.#rest, 'base64')
  }
}

/** RFC 2045 §6.7; what is malformed stays as it is. */
class QuotedPrintableDecoder implements TransferDecoder {
  #held: Buffer = NOTHING

  write(chunk: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    // What an earlier equals sign stands for is known: another one behind it makes it malformed.
    const equals = bytes.lastIndexOf(EQUALS)
    const whole = equals >= 0 && equals + 2 >= bytes.length ? equals : bytes.length
    this.#held = bytes.subarray(whole)
    return decodeQuotedPrintable(bytes.subarray(0, whole))
  }

  end(): Buffer {
    return decodeQuotedPrintable(this.#held)
  }
}

/** Of bytes that end in no unfinished escape, or in one that is left as it is. */
function decodeQuotedPrintable(bytes: Buffer): Buffer {
  const decoded = Buffer.allocUnsafe(bytes.length)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const octet = bytes[at] ?? 0
    if (octet === EQUALS) {
      const breakBytes = bytes[at + 1] === LF ? 1 : bytes[at + 1] === CR && bytes[at + 2] === LF ? 2 : 0
      if (breakBytes > 0) {
        at += breakBytes
        continue
      }
      const digits = bytes.toString('latin1', at + 1, at + 3)
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
