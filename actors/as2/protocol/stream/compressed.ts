/** CompressedData (RFC 3274), opened as it comes. */
import { contextTag, TAG } from '../asn1/tag.ts'
import { checkCompression } from '../cms/compressed-data.ts'
import type { BerStream } from './ber-stream.ts'
import { ByteSource } from './byte-source.ts'
import { settled } from './conclusion.ts'
import type { Conclusion } from './conclusion.ts'
import { inflated } from './inflate.ts'
import type { Expansion } from './inflate.ts'
import type { Inside } from './inside.ts'

/** `ber` stands in the fields of the CompressedData. */
export async function openCompressed(
  ber: BerStream,
  expansion: Expansion,
  { isSigned, open }: { readonly isSigned: boolean; readonly open: Inside },
): Promise<Conclusion> {
  await ber.open(TAG.INTEGER)
  await ber.close()
  checkCompression(await ber.element(TAG.SEQUENCE))
  await ber.open(TAG.SEQUENCE)
  ber.children()
  await ber.open(TAG.OBJECT_IDENTIFIER)
  await ber.close()
  await ber.open(contextTag(0, 'constructed'))
  ber.children()
  await ber.open()
  const expanded = new ByteSource(inflated(ber.octets(), expansion))
  const conclude = await settled(expanded, open(expanded))
  return (progress) => {
    progress.compression = isSigned ? 'BeforeSigning' : 'AfterSigning'
    return conclude(progress)
  }
}
