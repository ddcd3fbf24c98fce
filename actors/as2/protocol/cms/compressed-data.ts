/** CompressedData (RFC 3274), with an upper bound for what it expands to. */
import { promisify } from 'node:util'
import { deflate, inflate } from 'node:zlib'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import {
  algorithmIdentifier,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  tagged,
} from '../asn1/writer.ts'
import { ZLIB_OID } from '../algorithms.ts'
import { Refusal } from '../refusal.ts'
import { formatContentInfo } from './content-info.ts'
import { CONTENT_TYPE } from './oids.ts'

const compress = promisify(deflate)
const decompress = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate)

/** The ContentInfo of the compressed bytes; equal input gives equal output. */
export async function formatCompressedData(bytes: Buffer): Promise<Buffer> {
  const compressed = await compress(bytes)
  return formatContentInfo(
    CONTENT_TYPE.compressedData,
    sequence(
      integer(0),
      algorithmIdentifier(ZLIB_OID),
      sequence(objectIdentifier(CONTENT_TYPE.data), tagged(0, octetString(compressed))),
    ),
  )
}

/**
 * The bytes before compression.
 * @throws Refusal `decompression-failed`, also when they would be more than `maxBytes`
 * @throws Asn1Error
 */
export async function openCompressedData(content: BerElement, maxBytes: number): Promise<Buffer> {
  const fields = content.children()
  fields.next(TAG.INTEGER)
  const algorithm = fields.next(TAG.SEQUENCE).children().next(TAG.OBJECT_IDENTIFIER).oid()
  if (algorithm !== ZLIB_OID) throw new Refusal('decompression-failed', `compression ${algorithm} is unknown`)
  const encapsulated = fields.next(TAG.SEQUENCE).children()
  encapsulated.next(TAG.OBJECT_IDENTIFIER)
  const octets = encapsulated.next(contextTag(0, 'constructed')).children().next().octets()
  try {
    return await decompress(octets, { maxOutputLength: maxBytes })
  } catch (thrown) {
    const tooLarge = thrown instanceof RangeError
    throw new Refusal(
      'decompression-failed',
      tooLarge ? `the content expands to more than ${maxBytes} bytes` : 'the compressed data are damaged',
      null,
      { cause: thrown },
    )
  }
}
