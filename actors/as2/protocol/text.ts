/** What counts as text, of bytes that nobody vouches for. */

/** Printable ASCII, line ends and tabs. */
export function isTextOctet(octet: number): boolean {
  return (octet >= 0x20 && octet < 0x7f) || octet === 0x0a || octet === 0x0d || octet === 0x09
}

/** Whether bytes that come in chunks are printable text in UTF-8. All are looked at, also behind one that is not. */
export class TextCheck {
  /** Octets that the character begun still needs. */
  #pending = 0
  #isWrong = false

  write(bytes: Buffer): void {
    let pending = this.#pending
    let isWrong = this.#isWrong
    for (const octet of bytes) {
      const isContinuation = (octet & 0xc0) === 0x80
      isWrong ||= isContinuation !== pending > 0 || (octet < 0x80 && !isTextOctet(octet))
      pending = isContinuation ? Math.max(0, pending - 1) : continuationsOf(octet)
      isWrong ||= pending < 0
    }
    this.#pending = pending
    this.#isWrong = isWrong
  }

  get isText(): boolean {
    return !this.#isWrong && this.#pending === 0
  }
}

/** How many octets follow the first one of a character (RFC 3629 §4); negative where none begins with it. */
function continuationsOf(octet: number): number {
  if (octet < 0x80) return 0
  if (octet >= 0xc2 && octet < 0xe0) return 1
  if (octet >= 0xe0 && octet < 0xf0) return 2
  return octet >= 0xf0 && octet < 0xf5 ? 3 : -1
}
