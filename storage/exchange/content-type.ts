import { extname } from 'node:path'
import { isStructuralType } from '../../runtime/mime/structural-types.ts'

/** Media types of business files and the endings that stand for them (RFC 1767 for EDI); the first is the usual one. */

const UNKNOWN = 'application/octet-stream'

const BY_ENDING: Readonly<Record<string, string>> = {
  '.edi': 'application/edifact',
  '.edifact': 'application/edifact',
  '.x12': 'application/edi-x12',
  '.xml': 'application/xml',
  '.json': 'application/json',
  '.csv': 'text/csv',
  '.txt': 'text/plain',
  '.pdf': 'application/pdf',
  '.zip': 'application/zip',
}

/** The media type that a file's ending stands for. */
export function contentTypeOf(fileName: string): string {
  return BY_ENDING[extname(fileName).toLowerCase()] ?? UNKNOWN
}

/** The ending for a file of a media type that has come without a name. */
export function endingOf(contentType: string): string {
  return Object.keys(BY_ENDING).find((ending) => BY_ENDING[ending] === contentType) ?? '.bin'
}

/** What senders say of a file when they know nothing of it. */
const SAYS_NOTHING: ReadonlySet<string> = new Set([UNKNOWN, 'text/plain', ''])
/** Its parameters, without which it cannot be read, are not told. */
const MULTIPART = /^multipart\//
/** RFC 6838 §4.2, without parameters. */
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/

/**
 * The media type of a file that came with one: that, unless it says nothing, is none, or could not be sent as what it
 * is; then by the name's ending.
 */
export function contentTypeFor(said: string, fileName: string): string {
  const lower = said.toLowerCase()
  const byEnding = contentTypeOf(fileName)
  if (!MEDIA_TYPE.test(lower) || MULTIPART.test(lower) || isStructuralType(lower)) return byEnding
  return SAYS_NOTHING.has(lower) && byEnding !== UNKNOWN ? byEnding : lower
}
