/** Texts of alerts hold names that partners chose. Nothing of them may be more than text where people read it. */

/**
 * Controls, line ends among them, and what turns the direction of writing around or cannot be seen; but not the joiner and
 * the non-joiner between two characters, which many a script and emoji are written with.
 */
const UNSEEN = /(?!(?<=[\p{L}\p{M}\p{S}])[\u200c\u200d](?=[\p{L}\p{M}\p{S}]))[\p{Cc}\p{Cf}\u2028\u2029]/gu
const LINE_ENDS = /\r\n?|\n|\u2028|\u2029/u

/** One line of well-formed Unicode without anything that is not seen. */
export function line(text: string): string {
  return seen(text).trim()
}

function seen(text: string): string {
  return text.toWellFormed().replace(UNSEEN, ' ')
}

/** The lines of a text that are not empty, each without what is not seen, and indented as it was. */
export function lines(text: string): readonly string[] {
  return text
    .split(LINE_ENDS)
    .map((each) => seen(each).trimEnd())
    .filter((each) => each !== '')
}

/** At most so many UTF-16 units, with an ellipsis where something was cut off; no character is cut in two. */
export function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  const kept = text.slice(0, Math.max(0, maxLength - 1)).replace(/[\ud800-\udbff]$/, '')
  return `${kept}…`.slice(0, maxLength)
}
