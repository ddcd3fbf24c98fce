import { promisify } from 'node:util'
import { gunzip, inflate, inflateRaw } from 'node:zlib'

/**
 * Content codings of receipts (RFC 9110 §8.4). None is asked for, and some servers and proxies use one nevertheless: what
 * is inside is the receipt.
 */

type Headers = ReadonlyArray<readonly [string, string]>
type Decoder = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>

const fromGzip = promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip)
const fromZlib = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate)
const fromDeflate = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflateRaw)

const DECODERS: ReadonlyMap<string, Decoder> = new Map([
  ['gzip', fromGzip],
  ['x-gzip', fromGzip],
  // The coding of that name has the header of zlib; some leave it away (RFC 9110 §8.4.1.2).
  ['deflate', (bytes, limit) => (isZlib(bytes) ? fromZlib(bytes, limit) : fromDeflate(bytes, limit))],
])

/** More of what a server calls its coding tells nothing. */
const MAX_NAME_CHARACTERS = 100

export interface Decoded {
  /** Without those that speak of the coding, where it was undone. */
  readonly headers: Headers
  readonly body: Buffer
  /** The coding that the body is still in: one that is not known, or a body that is damaged. Null for none. */
  readonly coding: string | null
}

/** It expands to more than it may have. */
export class ExpandsTooFar extends Error {
  override readonly name = 'ExpandsTooFar'
}

/**
 * Undoes the coding of a body, if it has one.
 *
 * @throws ExpandsTooFar
 */
export async function decoded(headers: Headers, body: Buffer, maxBytes: number): Promise<Decoded> {
  const coding = codingOf(headers)
  if (coding === null || body.length === 0) return { headers, body, coding: null }
  const decode = DECODERS.get(coding)
  if (decode === undefined) return { headers, body, coding: coding.slice(0, MAX_NAME_CHARACTERS) }
  try {
    const content = await decode(body, { maxOutputLength: maxBytes })
    return {
      headers: headers.filter(([name]) => !CODED.has(name.toLowerCase())),
      body: content,
      coding: null,
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
      throw new ExpandsTooFar(`The receipt is larger than ${maxBytes} bytes without its coding ${coding}`, {
        cause: error,
      })
    return { headers, body, coding }
  }
}

const CODED: ReadonlySet<string> = new Set(['content-encoding', 'content-length'])

/** Several are one after the other, which nobody does: together they have no name that is known. */
function codingOf(headers: Headers): string | null {
  const names = headers
    .filter(([name]) => name.toLowerCase() === 'content-encoding')
    .flatMap(([, value]) => value.split(','))
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity')
  return names.length === 0 ? null : names.join(', ')
}

/** RFC 1950 §2.2 */
function isZlib(bytes: Buffer): boolean {
  return bytes.length > 1 && ((bytes[0] ?? 0) & 0x0f) === 8 && bytes.readUInt16BE(0) % 31 === 0
}
