/** The entities that a message is made of, from the content outwards: what both ways of making it share. */
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { formatAttachment, parseParameters } from '../../../runtime/mime/parameters.ts'
import type { OutgoingFacts, TransferEncoding } from './outgoing.ts'

/** How content of a type is encoded where a partner asks for an encoding: a multipart itself never is (RFC 2045 §6.4). */
export function contentEncoding({ contentType, transferEncoding }: OutgoingFacts): TransferEncoding {
  return isMultipart(contentType) ? 'binary' : (transferEncoding ?? 'binary')
}

function isMultipart(contentType: string): boolean {
  return parseParameters(contentType).value.startsWith('multipart/')
}

/** The innermost entity. What the MIC covers depends on the message alone, never on chance or on the time. */
export function contentHeaders(outgoing: OutgoingFacts): HeaderList {
  const { contentType, fileName } = outgoing
  // Of several files each has a name of its own, and the whole has none (RFC 6362 §3).
  const isNamed = fileName !== null && fileName !== '' && !isMultipart(contentType)
  const disposition: HeaderList = isNamed ? [['Content-Disposition', formatAttachment(fileName)]] : []
  const encoding: HeaderList = [['Content-Transfer-Encoding', contentEncoding(outgoing)]]
  return [['Content-Type', contentType], ...encoding, ...disposition]
}

/** RFC 8551 §3.2.2 */
const SMIME_TYPES = {
  compressedData: { type: 'compressed-data', fileName: 'smime.p7z' },
  envelopedData: { type: 'enveloped-data', fileName: 'smime.p7m' },
  authEnvelopedData: { type: 'authEnveloped-data', fileName: 'smime.p7m' },
} as const

export type SmimeLayer = keyof typeof SMIME_TYPES

export function smimeHeaders(layer: SmimeLayer, encoding: TransferEncoding): HeaderList {
  const { type, fileName } = SMIME_TYPES[layer]
  return [
    ['Content-Type', `application/pkcs7-mime; smime-type=${type}; name="${fileName}"`],
    ['Content-Transfer-Encoding', encoding],
    ['Content-Disposition', formatAttachment(fileName)],
  ]
}

/** Over what the MIC of a message is (RFC 4130 §7.3.1, RFC 5402 §4). */
export interface MicRule {
  /** The part as it is signed; the innermost entity with its headers; or its body alone. */
  readonly over: 'signed part' | 'entity' | 'body'
  /** Whether some products hash the content alone: as it is, without headers and before its transfer encoding. */
  readonly alternative: boolean
}

export function micRule(outgoing: OutgoingFacts): MicRule {
  const { signature, encryption, compression } = outgoing
  if (signature !== null) return { over: 'signed part', alternative: false }
  if (encryption !== null) return { over: 'entity', alternative: false }
  if (compression !== 'None') return { over: 'entity', alternative: true }
  return { over: 'body', alternative: contentEncoding(outgoing) === 'base64' }
}
