/** CompressedData (RFC 3274), with an upper bound for what it expands to. */
import { promisify } from 'node:util'
import { inflate, inflateSync } from 'node:zlib'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import type { Wrapping } from '../asn1/wrapping.ts'
import { algorithmIdentifier, integer, objectIdentifier } from '../asn1/writer.ts'
import { ZLIB_OID } from '../algorithms.ts'
import { BeyondMemory } from '../beyond-memory.ts'
import { MAKING } from '../making.ts'
import type { Making } from '../making.ts'
import { Refusal } from '../refusal.ts'
import { CHUNK_BYTES, MAX_EXPANDED_BYTES } from '../stream/limits.ts'
import { contentInfoLevels } from './content-info.ts'
import { deflated } from './deflate.ts'
import { wrapOctets } from './octets.ts'
import { CONTENT_TYPE } from './oids.ts'

const decompressElsewhere = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate)

const MAX_HERE_BYTES = 8 * CHUNK_BYTES

/** What stands around the compressed octets. */
export const COMPRESSED_DATA: Wrapping = {
  levels: [
    ...contentInfoLevels(CONTENT_TYPE.compressedData),
    { tag: TAG.SEQUENCE, before: [integer(0), algorithmIdentifier(ZLIB_OID)] },
    { tag: TAG.SEQUENCE, before: [objectIdentifier(CONTENT_TYPE.data)] },
    { tag: contextTag(0, 'constructed') },
  ],
  octetTag: TAG.OCTET_STRING,
}

/** The ContentInfo of the compressed bytes; equal input gives equal output. */
export async function formatCompressedData(
  bytes: Buffer,
  { limitBytes }: Pick<Making, 'limitBytes'> = MAKING,
): Promise<Buffer> {
  return wrapOctets(COMPRESSED_DATA, await deflated(bytes), limitBytes)
}

/** @throws Refusal for a compression other than that of zlib, Asn1Error */
export function checkCompression(identifier: BerElement): void {
  const algorithm = identifier.children().next(TAG.OBJECT_IDENTIFIER).oid()
  if (algorithm !== ZLIB_OID) throw new Refusal('decompression-failed', `compression ${algorithm} is unknown`)
}

/**
 * What is and stays small is decompressed in this thread: that takes less than handing it to another one, as deflate.ts
 * says. What expands to more begins anew elsewhere, so that it does not keep this one.
 */
async function decompress(octets: Buffer, maxBytes: number): Promise<Buffer> {
  if (octets.length > CHUNK_BYTES) return decompressElsewhere(octets, { maxOutputLength: maxBytes })
  try {
    return inflateSync(octets, { maxOutputLength: Math.min(maxBytes, MAX_HERE_BYTES) })
  } catch (thrown) {
    if (!(thrown instanceof RangeError) || maxBytes <= MAX_HERE_BYTES) throw thrown
    return decompressElsewhere(octets, { maxOutputLength: maxBytes })
  }
}

/**
 * The bytes before compression.
 * @throws Refusal `decompression-failed`, also when they would be more than `maxBytes`
 * @throws BeyondMemory when they may be as many, but are more than should lie in memory
 * @throws Asn1Error
 */
export async function openCompressedData(content: BerElement, maxBytes: number): Promise<Buffer> {
  const fields = content.children()
  fields.next(TAG.INTEGER)
  checkCompression(fields.next(TAG.SEQUENCE))
  const encapsulated = fields.next(TAG.SEQUENCE).children()
  encapsulated.next(TAG.OBJECT_IDENTIFIER)
  const octets = encapsulated.next(contextTag(0, 'constructed')).children().next().octets()
  try {
    return await decompress(octets, Math.min(maxBytes, MAX_EXPANDED_BYTES))
  } catch (thrown) {
    const tooLarge = thrown instanceof RangeError
    if (tooLarge && maxBytes > MAX_EXPANDED_BYTES)
      throw new BeyondMemory('the content expands', { cause: thrown })
    throw new Refusal(
      'decompression-failed',
      tooLarge ? `the content expands to more than ${maxBytes} bytes` : 'the compressed data are damaged',
      null,
      { cause: thrown },
    )
  }
}
