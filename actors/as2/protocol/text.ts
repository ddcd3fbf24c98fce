/** What counts as text, of bytes that nobody vouches for. */

/** Printable ASCII, line ends and tabs. */
export function isTextOctet(octet: number): boolean {
  return (octet >= 0x20 && octet < 0x7f) || octet === 0x0a || octet === 0x0d || octet === 0x09
}

const WRONG = 4
/**
 * What follows a state, by octet, in rows of 256: 0 to 3 are the octets that the character begun still needs. One look-up
 * for each octet, whatever it is: the time must not tell what was decrypted.
 */
const NEXT = Uint8Array.from({ length: (WRONG + 1) * 256 }, (_, at) => stateAfter(at >> 8, at & 0xff))

/** Whether bytes that come in chunks are printable text in UTF-8. All are looked at, also behind one that is not. */
export class TextCheck {
  #state = 0

  write(bytes: Buffer): void {
    let state = this.#state
    for (let at = 0; at < bytes.length; at++) state = NEXT[(state << 8) | (bytes[at] ?? 0)] ?? WRONG
    this.#state = state
  }

  get isText(): boolean {
    return this.#state === 0
  }
}

function stateAfter(state: number, octet: number): number {
  if (state === WRONG) return WRONG
  const isContinuation = (octet & 0xc0) === 0x80
  if (isContinuation !== state > 0) return WRONG
  return isContinuation ? state - 1 : continuationsOf(octet)
}

/** How many octets follow the first one of a character (RFC 3629 §4). */
function continuationsOf(octet: number): number {
  if (octet < 0x80) return isTextOctet(octet) ? 0 : WRONG
  if (octet >= 0xc2 && octet < 0xe0) return 1
  if (octet >= 0xe0 && octet < 0xf0) return 2
  return octet >= 0xf0 && octet < 0xf5 ? 3 : WRONG
}
