/** The outermost structure of every CMS object (RFC 5652 §3). */
import { BerReader } from '../asn1/reader.ts'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import type { Level } from '../asn1/wrapping.ts'
import { objectIdentifier, sequence, tagged, toBuffer } from '../asn1/writer.ts'
import type { Part } from '../asn1/writer.ts'

export interface ContentInfo {
  /** Object identifier in dotted form. */
  readonly contentType: string
  readonly content: BerElement
  /** What follows it. */
  readonly trailing: Buffer
}

/** @throws Asn1Error */
export function readContentInfo(bytes: Buffer): ContentInfo {
  const info = new BerReader(bytes).next(TAG.SEQUENCE)
  const fields = info.children()
  const contentType = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const content = fields.next(contextTag(0, 'constructed')).children().next(TAG.SEQUENCE)
  return { contentType, content, trailing: bytes.subarray(info.end) }
}

export function formatContentInfo(contentType: string, content: Part): Buffer {
  return toBuffer(sequence(objectIdentifier(contentType), tagged(0, content)))
}

/** The same, around contents that are longer than memory. */
export function contentInfoLevels(contentType: string): Level[] {
  return [
    { tag: TAG.SEQUENCE, before: [objectIdentifier(contentType)] },
    { tag: contextTag(0, 'constructed') },
  ]
}
