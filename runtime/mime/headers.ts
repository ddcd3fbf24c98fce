/** Header fields, of HTTP and of MIME entities alike. Values are Latin-1 strings, one character an octet. */

/** Fields in order, names in any case; a name may occur more than once. */
export type HeaderList = ReadonlyArray<readonly [name: string, value: string]>

export const MAX_BLOCK_BYTES = 65_536
/** What a line that we make has at most, without its end (RFC 5322 §2.1.1): our lines are never folded. */
export const MAX_LINE_OCTETS = 998
const MAX_FIELDS = 256
const LF = 0x0a
const CR = 0x0d

export class HeaderFields {
  readonly list: HeaderList
  readonly #values = new Map<string, string[]>()

  constructor(list: HeaderList) {
    this.list = list
    for (const [name, value] of list) {
      const key = name.toLowerCase()
      const values = this.#values.get(key)
      const unfolded = value.replace(/\r?\n[ \t]*/g, ' ').trim()
      if (values === undefined) this.#values.set(key, [unfolded])
      else values.push(unfolded)
    }
  }

  /** The first value, unfolded and trimmed, or null. The name is given in lower case. */
  get(name: string): string | null {
    return this.#values.get(name)?.[0] ?? null
  }

  /** All values, unfolded and trimmed. */
  all(name: string): readonly string[] {
    return this.#values.get(name) ?? []
  }

  get isEmpty(): boolean {
    return this.#values.size === 0
  }

  /** Whether a field says that these are the headers of a MIME entity. */
  get describeContent(): boolean {
    return this.#values.keys().some((name) => name.startsWith('content-') || name === 'mime-version')
  }
}

export interface HeaderBlock {
  readonly fields: HeaderFields
  /** Offset of the body, behind the blank line. */
  readonly bodyStart: number
  /** Whether a blank line ended the block, and not the end of the bytes. */
  readonly ended: boolean
}

/**
 * Reads a header block at the start of an entity; lines end in CRLF or LF and may be folded.
 * Null when the bytes do not begin with one, or it breaks a limit (64 KiB, 256 fields).
 */
export function parseHeaderBlock(bytes: Buffer): HeaderBlock | null {
  const list: (readonly [string, string])[] = []
  let position = 0
  while (position < bytes.length) {
    const lf = bytes.indexOf(LF, position)
    const lineEnd = lf < 0 ? bytes.length : lf
    const next = lf < 0 ? bytes.length : lf + 1
    if (next > MAX_BLOCK_BYTES || list.length >= MAX_FIELDS) return null
    const textEnd = lineEnd > position && bytes[lineEnd - 1] === CR ? lineEnd - 1 : lineEnd
    if (textEnd === position) return { fields: new HeaderFields(list), bodyStart: next, ended: true }
    const line = bytes.toString('latin1', position, textEnd)
    const last = list.at(-1)
    if (/^[ \t]/.test(line)) {
      if (last === undefined) return null
      list[list.length - 1] = [last[0], `${last[1]} ${line.trim()}`]
    } else {
      const [, name, value] = /^([!-9;-~]+)[ \t]*:(.*)$/s.exec(line) ?? []
      if (name === undefined || value === undefined) return null
      list.push([name, value.trim()])
    }
    position = next
  }
  return { fields: new HeaderFields(list), bodyStart: bytes.length, ended: false }
}
