import { extname } from 'node:path'

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

/** The media type that a file's ending stands for (RFC 1767 for EDI). */
export function contentTypeOf(fileName: string): string {
  return BY_ENDING[extname(fileName).toLowerCase()] ?? UNKNOWN
}
