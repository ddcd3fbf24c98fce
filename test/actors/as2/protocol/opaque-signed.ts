import type { ComposedReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import type { TestCertificate } from '../../../support/certificates.ts'
import { attributesOf, signedData, signerInfo } from './crafted-cms.ts'

/** An entity within its signature, as some products sign. */
export function opaqueSigned(
  part: Buffer,
  signer: TestCertificate,
  contentType = 'application/pkcs7-mime; smime-type=signed-data; name=smime.p7m',
): ComposedReceipt {
  const body = signedData(part, signerInfo(signer, attributesOf(part)))
  return { headers: [['Content-Type', contentType]], body }
}

/** A receipt that was made unsigned, within a signature. */
export function receiptWithin({ headers, body }: ComposedReceipt, signer: TestCertificate): ComposedReceipt {
  const isOfContent = ([name]: readonly [string, string]): boolean => /^content-/i.test(name)
  const lines = headers.filter(isOfContent).map(([name, value]) => `${name}: ${value}\r\n`)
  const opaque = opaqueSigned(Buffer.concat([Buffer.from(`${lines.join('')}\r\n`), body]), signer)
  return { ...opaque, headers: [...headers.filter((field) => !isOfContent(field)), ...opaque.headers] }
}
