/**
 * A DER writer (X.690 §10). Structures are kept as lists of chunks, so that large contents are copied
 * only once, by `toBuffer` at the end.
 */
import { oidToBytes } from './oid.ts'
import { contextTag, TAG } from './tag.ts'

/** An encoded element: its chunks in order and their total length in bytes. */
export interface Der {
  readonly chunks: readonly Buffer[]
  readonly length: number
}

/** What an element may hold: elements, or bytes that are encoded already. */
export type Part = Der | Buffer

export function toBuffer(part: Part): Buffer {
  if (Buffer.isBuffer(part)) return part
  const [only] = part.chunks
  return part.chunks.length === 1 && only !== undefined ? only : Buffer.concat(part.chunks, part.length)
}

export function element(tag: number, ...parts: readonly Part[]): Der {
  const chunks: Buffer[] = []
  let length = 0
  for (const part of parts) {
    length += part.length
    if (Buffer.isBuffer(part)) chunks.push(part)
    else chunks.push(...part.chunks)
  }
  const header = headerOf(tag, length)
  return { chunks: [header, ...chunks], length: header.length + length }
}

/** Identifier and definite length. */
export function headerOf(tag: number, length: number): Buffer {
  if (length < 0x80) return Buffer.from([tag, length])
  const octets: number[] = []
  for (let left = length; left > 0; left = Math.floor(left / 256)) octets.unshift(left % 256)
  return Buffer.from([tag, 0x80 | octets.length, ...octets])
}

export function sequence(...parts: readonly Part[]): Der {
  return element(TAG.SEQUENCE, ...parts)
}

/** A SET OF: DER sorts the encoded elements (X.690 §11.6). */
export function setOf(...parts: readonly Part[]): Der {
  return element(TAG.SET, ...parts.map(toBuffer).toSorted((a, b) => a.compare(b)))
}

/** A context-specific, constructed tag: EXPLICIT, or IMPLICIT over a constructed type. */
export function tagged(number: number, ...parts: readonly Part[]): Der {
  return element(contextTag(number, 'constructed'), ...parts)
}

export function octetString(contents: Buffer): Der {
  return element(TAG.OCTET_STRING, contents)
}

/** A BIT STRING of whole octets. */
export function bitString(...contents: readonly Part[]): Der {
  return element(TAG.BIT_STRING, Buffer.from([0]), ...contents)
}

export function boolean(value: boolean): Der {
  return element(TAG.BOOLEAN, Buffer.from([value ? 0xff : 0]))
}

/** A non-negative INTEGER: a small number, or the octets of a large one, most significant first. */
export function integer(value: number | Buffer): Der {
  let octets = typeof value === 'number' ? bigEndian(value) : value
  let zeros = 0
  while (zeros < octets.length - 1 && octets[zeros] === 0) zeros++
  octets = octets.subarray(zeros)
  const negative = (octets[0] ?? 0) >= 0x80
  return negative ? element(TAG.INTEGER, Buffer.from([0]), octets) : element(TAG.INTEGER, octets)
}

function bigEndian(value: number): Buffer {
  const octets = Buffer.alloc(6)
  octets.writeUIntBE(value, 0, 6)
  return octets
}

const identifiers = new Map<string, Buffer>()

/** An OBJECT IDENTIFIER from its dotted form; encodings are kept, as only constants are passed. */
export function objectIdentifier(dotted: string): Buffer {
  let encoded = identifiers.get(dotted)
  if (encoded === undefined) {
    encoded = toBuffer(element(TAG.OBJECT_IDENTIFIER, oidToBytes(dotted)))
    identifiers.set(dotted, encoded)
  }
  return encoded
}

export const NULL: Buffer = Buffer.from([TAG.NULL, 0])

/** UTCTime for the years 1950 to 2049, GeneralizedTime beyond (RFC 5652 §11.3, RFC 5280 §4.1.2.5). */
export function time(date: Date): Der {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '')
  const year = date.getUTCFullYear()
  return year >= 1950 && year < 2050
    ? element(TAG.UTC_TIME, Buffer.from(digits.slice(2), 'latin1'))
    : element(TAG.GENERALIZED_TIME, Buffer.from(digits, 'latin1'))
}

/** An AlgorithmIdentifier (RFC 5280 §4.1.1.2); parameters left out are absent, not NULL. */
export function algorithmIdentifier(oid: string, ...parameters: readonly Part[]): Der {
  return sequence(objectIdentifier(oid), ...parameters)
}
