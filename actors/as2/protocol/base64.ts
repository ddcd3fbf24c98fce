/** The transfer encoding base64 (RFC 2045 §6.8): lines of 76 characters with CRLF between them, and none at the end. */

const LINE_CHARACTERS = 76
const LINE_BYTES = (LINE_CHARACTERS / 4) * 3
const CR = 0x0d
const LF = 0x0a

/** Encodes bytes as they come; the result does not depend on how. */
export class Base64Encoder {
  /** Less than a line. */
  #held = Buffer.alloc(0)
  #isFirst = true

  /** The lines that are complete with these bytes. */
  update(bytes: Buffer): Buffer {
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const lines = Math.floor(all.length / LINE_BYTES)
    this.#held = Buffer.from(all.subarray(lines * LINE_BYTES))
    return this.#lines(all.subarray(0, lines * LINE_BYTES), lines)
  }

  /** The line that is left. */
  final(): Buffer {
    return this.#lines(this.#held, this.#held.length === 0 ? 0 : 1)
  }

  #lines(bytes: Buffer, lines: number): Buffer {
    const text = bytes.toString('base64')
    const breaks = this.#isFirst ? lines - 1 : lines
    const encoded = Buffer.allocUnsafe(text.length + Math.max(0, breaks) * 2)
    let at = 0
    for (let line = 0; line < lines; line++) {
      if (!this.#isFirst) {
        encoded[at++] = CR
        encoded[at++] = LF
      }
      this.#isFirst = false
      at += encoded.write(text.slice(line * LINE_CHARACTERS, (line + 1) * LINE_CHARACTERS), at, 'latin1')
    }
    return encoded
  }
}

export function encodeBase64(bytes: Buffer): Buffer {
  const encoder = new Base64Encoder()
  return Buffer.concat([encoder.update(bytes), encoder.final()])
}
