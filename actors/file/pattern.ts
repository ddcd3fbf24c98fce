/**
 * The patterns of the file instances. A path pattern is a relative path with places: the poller reads `{from}` and
 * `{to}` out of a path, the writer puts `{from}`, `{to}`, `{filename}`, `{id}` and `{date}` into one. A file pattern
 * is a name with `*` and `?`.
 */

type Place = 'from' | 'to' | 'filename' | 'id' | 'date'

const PLACE = /\{(from|to|filename|id|date)\}/g

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')

/** What a path says by its place under the pattern; a place may stand for one name, never for a separator. */
export type PathReader = (path: string) => Readonly<Partial<Record<Place, string>>> | null

export function pathReader(pattern: string): PathReader {
  const seen = new Set<string>()
  let source = ''
  let end = 0
  for (const match of pattern.matchAll(PLACE)) {
    const [text, place = ''] = match
    source += escaped(pattern.slice(end, match.index))
    source += seen.has(place) ? `\\k<${place}>` : `(?<${place}>[^/]+)`
    seen.add(place)
    end = match.index + text.length
  }
  const expression = new RegExp(`^${source}${escaped(pattern.slice(end))}$`, 'u')
  return (path) => expression.exec(path)?.groups ?? null
}

/** Fills the places of a writer's pattern; the values must be safe as single names already. */
export function fillPath(pattern: string, values: Readonly<Record<Place, string>>): string {
  return pattern.replaceAll(PLACE, (_, place: Place) => values[place])
}

/**
 * Whether a name matches. `*` is any run of characters, `?` is one; `*.*` is every name, with a dot or without, as
 * it always was. Takes time in proportion to the name times the pattern at most, whatever the two are: an expression
 * with several `.*` would try all ways to share a name out between them.
 */
export function nameMatcher(pattern: string): (name: string) => boolean {
  if (pattern === '*.*') return () => true
  const wanted = Array.from(pattern)
  return (name) => matches(wanted, Array.from(name))
}

/** Only the last `*` is ever tried again: what an earlier one left out, the later one can take. */
function matches(pattern: readonly string[], name: readonly string[]): boolean {
  let at = 0
  let star = -1
  let starAt = 0
  let position = 0
  while (position < name.length) {
    const wanted = pattern[at]
    if (wanted === '*') {
      star = at
      starAt = position
      at += 1
    } else if (wanted !== undefined && (wanted === '?' || wanted === name[position])) {
      at += 1
      position += 1
    } else if (star >= 0) {
      starAt += 1
      position = starAt
      at = star + 1
    } else {
      return false
    }
  }
  return pattern.slice(at).every((rest) => rest === '*')
}
