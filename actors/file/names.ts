/**
 * Names that come from outside (a partner's file name, a party's AS2 identifier) as parts of a path of ours. A part
 * is one name: it can neither lead into another directory nor hide what it is.
 */

/** The limit of the common file systems, in bytes of UTF-8. */
const MAX_NAME_BYTES = 255
/** Room for what may be put before the ending: ` (12345)`. */
const RESERVED_BYTES = 16

// Control characters, separators of lines, what Windows forbids, and what is not seen or turns the reading direction
// around.
// The two that join letters belong to the spelling of several languages.
const UNSAFE = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}<>:"/\\|?*]/gu
// With spaces before the ending too: Windows takes them away before it looks.
const DEVICE = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)[ ]*(\.|$)/i

/** A name that is safe as one part of a path on every system; `fallback` stands for one of which nothing is left. */
export function safeName(name: string, fallback: string): string {
  const cleaned = name
    .toWellFormed()
    .normalize('NFC')
    .replaceAll(UNSAFE, '_')
    // A dash would make it an option of whatever command an operator gives it to.
    .replace(/^[. -]+/, (start) => '_'.repeat(start.length))
    .replace(/[. ]+$/, (dots) => '_'.repeat(dots.length))
  if (cleaned === '' || /^_*$/.test(cleaned)) return fallback
  const named = DEVICE.test(cleaned) ? `_${cleaned}` : cleaned
  // The cut may have left a space or a dot at the end.
  return shorten(named, MAX_NAME_BYTES - RESERVED_BYTES).replace(/[. ]+$/, (end) => '_'.repeat(end.length))
}

/** `invoice.edi` and 2 make `invoice (2).edi`. A name that leaves no room for the number is shortened. */
export function numbered(name: string, number: number): string {
  const mark = ` (${number})`
  const { stem, ending } = split(shorten(name, MAX_NAME_BYTES - Buffer.byteLength(mark)))
  return stem + mark + ending
}

function shorten(name: string, maxBytes: number): string {
  if (Buffer.byteLength(name) <= maxBytes) return name
  const { stem, ending } = split(name)
  const kept = Buffer.byteLength(ending) < 32 ? ending : ''
  let room = maxBytes - Buffer.byteLength(kept)
  let start = ''
  for (const character of kept === '' ? name : stem) {
    room -= Buffer.byteLength(character)
    if (room < 0) break
    start += character
  }
  return start + kept
}

function split(name: string): { stem: string; ending: string } {
  const dot = name.lastIndexOf('.')
  return dot <= 0 ? { stem: name, ending: '' } : { stem: name.slice(0, dot), ending: name.slice(dot) }
}
