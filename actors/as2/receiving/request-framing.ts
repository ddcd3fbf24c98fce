import type { IncomingMessage } from 'node:http'

/**
 * Partners fold headers, end lines in LF alone and put spaces behind the sizes of chunks, which the parser of Node.js
 * takes in this mode only. What it then also takes and must not pass is refused by `refusalOfFraming`.
 *
 * One thing that RFC 9112 §7.1.1 lets a recipient tolerate the parser refuses in every mode, with 400: space between the
 * size of a chunk and the semicolon of its extension (`a ;x=y`).
 */
export const TOLERANT_PARSER = { insecureHTTPParser: true } as const

/**
 * The path that a request is for, not parsed as a URL: what strangers send here need not be one. A target may also be in
 * absolute-form, as proxies get it (RFC 9112 §3.2.2).
 */
export function pathOf({ url = '' }: IncomingMessage): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1)
  return path
}

/** Whether the body is not what it seems. A content coding is undone of receipts alone: what is inside of it is the message. */
export function isCoded({ headers }: IncomingMessage): boolean {
  return !/^(?:[\s,]|identity)*$/i.test(headers['content-encoding'] ?? '')
}

/**
 * Why a proxy may read other headers here, or see another request behind this one, as it is open where it ends (RFC 9112
 * §6.3). Null for a sound one.
 */
export function refusalOfFraming({ headers, rawHeaders }: IncomingMessage): string | null {
  // Names and values by turns. The parser obeys a length whose name has a space behind it (RFC 9112 §5.1).
  if (rawHeaders.some((text, at) => at % 2 === 0 && text.endsWith(' ')))
    return 'There must be no space between the name of a header and its colon.'
  // RFC 9110 §5.5
  if (rawHeaders.some((text) => text.includes('\0'))) return 'A header must not contain a NUL.'
  const { 'transfer-encoding': encoding, 'content-length': length } = headers
  if (encoding === undefined) return null
  if (length !== undefined) return 'A request has Content-Length or Transfer-Encoding, not both.'
  return /^\s*chunked\s*$/i.test(encoding)
    ? null
    : 'The only Transfer-Encoding that is understood is chunked.'
}
