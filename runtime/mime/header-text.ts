/** Text beyond ASCII in header fields (RFC 2047), outbound never folded. */
import { MAX_LINE_OCTETS } from './headers.ts'

const MAX_WORD_BYTES = 45
const WORD_BEGIN = '=?UTF-8?B?'
const WORD_END = '?='
const MAX_TEXT_OCTETS = MAX_LINE_OCTETS - 'Subject: '.length

/**
 * The text as a header carries it: as it stands when it is plain ASCII, else in encoded words of UTF-8. What does not fit
 * into one line is left out, from a whole character on.
 */
export function encodeHeaderText(text: string): string {
  const isPlain = /^[\x20-\x7e]*$/.test(text) && text.trim() === text && !text.includes('=?')
  if (isPlain) return text.slice(0, MAX_TEXT_OCTETS).trimEnd()
  const words: string[] = []
  let word = ''
  let room = MAX_TEXT_OCTETS
  for (const character of text.toWellFormed()) {
    if (Buffer.byteLength(word + character) > MAX_WORD_BYTES) {
      words.push(word)
      room -= encodedLength(word) + ' '.length
      word = ''
    }
    if (encodedLength(word + character) > room) break
    word += character
  }
  if (word !== '' || words.length === 0) words.push(word)
  return words.map(encodedWord).join(' ')
}

function encodedWord(word: string): string {
  return `${WORD_BEGIN}${Buffer.from(word).toString('base64')}${WORD_END}`
}

function encodedLength(word: string): number {
  return WORD_BEGIN.length + Math.ceil(Buffer.byteLength(word) / 3) * 4 + WORD_END.length
}

/** The text of a header field: encoded words decoded, and raw UTF-8 taken for what it is. */
export function decodeHeaderText(field: string): string {
  const pattern = /=\?([^?\s]{1,40})\?([bq])\?([^?]*)\?=(?:\s+(?==\?[^?\s]{1,40}\?[bq]\?[^?]*\?=))?/gi
  const plain = fromRawUtf8(field)
  return plain.replace(pattern, (whole: string, charset: string, encoding: string, text: string) => {
    const bytes = encoding.toLowerCase() === 'b' ? Buffer.from(text, 'base64') : decodeQ(text)
    return decodeCharset(bytes, charset) ?? whole
  })
}

/** Decodes bytes of a named character set, or gives null when it is not known. */
export function decodeCharset(bytes: Buffer, charset: string): string | null {
  try {
    return new TextDecoder(charset.replace(/\*.*$/, ''), { ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}

/** A Latin-1 string whose octets are valid UTF-8 was UTF-8 on the wire. */
function fromRawUtf8(field: string): string {
  if (!/[\u0080-\u00ff]/.test(field) || /[\u0100-\uffff]/.test(field)) return field
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(field, 'latin1'))
  } catch {
    return field
  }
}

function decodeQ(text: string): Buffer {
  const octets = text
    .replace(/_/g, ' ')
    .replace(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(octets, 'latin1')
}
