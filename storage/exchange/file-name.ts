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

/**
 * Names of files that belong together, each different from the others: one that has been there gets a number before its
 * ending. Case does not make names different, as many file systems know none. Files without a name keep having none.
 */
export function distinctNames(names: readonly (string | null)[]): (string | null)[] {
  const given = new Set(names.map((name) => name?.toLowerCase()))
  const used = new Set<string>()
  return names.map((name) => {
    if (name === null) return null
    let distinct = name
    const isTaken = (): boolean => used.has(distinct.toLowerCase()) || given.has(distinct.toLowerCase())
    if (used.has(name.toLowerCase()))
      for (let number = 2; isTaken(); number++) distinct = shortened(name, `-${number}`)
    used.add(distinct.toLowerCase())
    return distinct
  })
}

/** As much of a name as there is room for, with its ending; a number stands before that. */
function shortened(name: string, number = ''): string {
  if (number === '' && Buffer.byteLength(name) <= MAX_NAME_BYTES) return name
  const dot = name.lastIndexOf('.')
  const hasEnding = dot > 0 && Buffer.byteLength(name.slice(dot)) <= MAX_ENDING_BYTES
  const ending = hasEnding ? name.slice(dot) : ''
  let room = MAX_NAME_BYTES - Buffer.byteLength(number + ending)
  let start = ''
  for (const character of hasEnding ? name.slice(0, dot) : name) {
    room -= Buffer.byteLength(character)
    if (room < 0) break
    start += character
  }
  return start + number + ending
}
