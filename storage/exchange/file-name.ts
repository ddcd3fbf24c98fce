/** The limit of the common file systems, in bytes of UTF-8. */
const MAX_NAME_BYTES = 255
/** An ending that is longer is none. */
const MAX_ENDING_BYTES = 32

// Control characters, separators of lines, and what is not seen or turns the reading direction around.
// The two that join letters belong to the spelling of several languages.
const UNSAFE = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/**
 * The file name of a message that came from outside, as records keep and show it: one name without directories, in
 * characters that show what it is, and as long as a file's name can be. What a target makes of it, which may not know
 * all of these characters, is the target's matter. `fallback` stands for one of which nothing is left.
 */
export function recordedFileName(name: string, fallback: string): string {
  const last = name.toWellFormed().split(/[/\\]/).at(-1) ?? ''
  const cleaned = last.normalize('NFC').replaceAll(UNSAFE, '_').trim()
  return /^[._ ]*$/.test(cleaned) ? fallback : shortened(cleaned)
}

function shortened(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name
  const dot = name.lastIndexOf('.')
  const ending = dot > 0 && Buffer.byteLength(name.slice(dot)) <= MAX_ENDING_BYTES ? name.slice(dot) : ''
  let room = MAX_NAME_BYTES - Buffer.byteLength(ending)
  let start = ''
  for (const character of name) {
    room -= Buffer.byteLength(character)
    if (room < 0) break
    start += character
  }
  return start + ending
}
