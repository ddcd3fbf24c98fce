/**
 * Header values with parameters, such as `multipart/signed; micalg=sha-256; boundary="x"` (RFC 2045 §5.1),
 * with the extensions of RFC 2231 for long and non-ASCII values.
 */
import { decodeCharset, decodeHeaderText } from './header-text.ts'
import { MAX_LINE_OCTETS } from './headers.ts'

const MAX_PARAMETERS = 64
const MAX_DISPOSITION_OCTETS = MAX_LINE_OCTETS - 'Content-Disposition: '.length
/** An ending that is longer is none. */
const MAX_ENDING_CHARACTERS = 32

export interface ParameterisedValue {
  /** What stands before the first semicolon, in lower case. */
  readonly value: string
  /** By name in lower case; the first of a name counts. */
  readonly parameters: ReadonlyMap<string, string>
}

/** Reads a value and its parameters; anything malformed is passed over. */
export function parseParameters(field: string): ParameterisedValue {
  const [value = '', ...segments] = splitOutsideQuotes(field)
  const plain = new Map<string, string>()
  const sections = new Map<string, Map<number, { text: string; encoded: boolean }>>()
  for (const segment of segments.slice(0, MAX_PARAMETERS)) {
    const [, rawName, rawValue] = /^\s*([^\s=]+)\s*=(.*)$/s.exec(segment) ?? []
    if (rawName === undefined || rawValue === undefined) continue
    const name = rawName.toLowerCase()
    const text = unquote(rawValue.trim())
    const [, base, number = '0', star = ''] = /^([^*]+)\*(?:(\d{1,3})(\*)?)?$/.exec(name) ?? []
    if (base === undefined) {
      if (!plain.has(name)) plain.set(name, isFileName(name) ? decodeHeaderText(text) : text)
    } else {
      const parts = sections.get(base) ?? new Map<number, { text: string; encoded: boolean }>()
      parts.set(Number(number), { text, encoded: star === '*' || name === `${base}*` })
      sections.set(base, parts)
    }
  }
  for (const [name, parts] of sections) {
    const text = joinSections(parts)
    if (text !== null) plain.set(name, text)
  }
  return { value: value.trim().toLowerCase(), parameters: plain }
}

/**
 * The value of `Content-Disposition` for an attachment of any name; null or empty: without one. What of a name does not
 * fit into one line is left out, in whole characters and before the file's ending.
 */
export function formatAttachment(fileName: string | null): string {
  if (fileName === null || fileName === '') return 'attachment'
  const name = fileName.toWellFormed()
  const whole = dispositionOf(name)
  return whole.length <= MAX_DISPOSITION_OCTETS ? whole : dispositionOf(fitting(name))
}

function fitting(name: string): string {
  const dot = name.lastIndexOf('.')
  const ending = dot > 0 && name.length - dot <= MAX_ENDING_CHARACTERS ? name.slice(dot) : ''
  let start = ''
  for (const character of name) {
    if (dispositionOf(start + character + ending).length > MAX_DISPOSITION_OCTETS) break
    start += character
  }
  return start + ending
}

function dispositionOf(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\]/gu, '_').replaceAll('=?', '=_')
  const ascii = `attachment; filename="${plain}"`
  return plain === name ? ascii : `${ascii}; filename*=UTF-8''${percentEncode(name)}`
}

/** The file name that `Content-Disposition` or `Content-Type` gives, as the sender wrote it, or null. */
export function fileNameOf(disposition: string | null, contentType: string | null): string | null {
  const named =
    (disposition === null ? undefined : parseParameters(disposition).parameters.get('filename')) ??
    (contentType === null ? undefined : parseParameters(contentType).parameters.get('name'))
  return named === undefined || named === '' ? null : named
}

/** The field without a parameter in any of its forms, such as `name*0`; all else of it as it stands. */
export function withoutParameter(field: string, parameter: string): string {
  const [value = '', ...segments] = splitOutsideQuotes(field)
  const kept = segments.filter((segment) => {
    const [, name = ''] = /^\s*([^\s=*]+)/.exec(segment) ?? []
    return name.toLowerCase() !== parameter
  })
  return [value, ...kept].join(';')
}

/** Encoded words have no place in a quoted string (RFC 2047 §5), but products put file names in them. */
function isFileName(parameter: string): boolean {
  return parameter === 'filename' || parameter === 'name'
}

function splitOutsideQuotes(field: string): string[] {
  const segments: string[] = []
  let start = 0
  let quoted = false
  for (let at = 0; at < field.length; at++) {
    const character = field[at]
    if (character === '"') quoted = !quoted
    else if (quoted && character === '\\') at++
    else if (!quoted && character === ';') {
      segments.push(field.slice(start, at))
      start = at + 1
    }
  }
  segments.push(field.slice(start))
  return segments
}

/** Only `\"` and `\\` are escapes: a lone backslash is one of a Windows path. */
function unquote(text: string): string {
  if (!text.startsWith('"')) return text
  const end = text.length > 1 && text.endsWith('"') ? -1 : text.length
  return text.slice(1, end).replace(/\\(["\\])/g, '$1')
}

function joinSections(parts: ReadonlyMap<number, { text: string; encoded: boolean }>): string | null {
  const first = parts.get(0)
  if (first === undefined) return null
  const [, charset = 'utf-8', rest = ''] = /^([^']*)'[^']*'(.*)$/s.exec(first.text) ?? [
    '',
    undefined,
    first.text,
  ]
  const chunks: Buffer[] = [first.encoded ? percentDecode(rest) : Buffer.from(first.text)]
  for (let number = 1; number < parts.size; number++) {
    const part = parts.get(number)
    if (part === undefined) break
    chunks.push(part.encoded ? percentDecode(part.text) : Buffer.from(part.text))
  }
  return decodeCharset(Buffer.concat(chunks), first.encoded && charset !== '' ? charset : 'utf-8')
}

function percentDecode(text: string): Buffer {
  const octets = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
  return Buffer.from(octets, 'latin1')
}

/** RFC 5987 §3.2.1: what encodeURIComponent leaves of `*'()!` must be encoded, too. */
function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
