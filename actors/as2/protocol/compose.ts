/** Makes an AS2 message: HTTP headers and body, and the MIC that its receipt must show. */
import type { SigningDigest } from './algorithms.ts'
import { encodeBase64 } from './base64.ts'
import { formatCompressedData } from './cms/compressed-data.ts'
import { formatEnvelopedData } from './cms/enveloped-data.ts'
import type { Signing } from './cms/signature.ts'
import { ComposeError } from './compose-error.ts'
import { encodeHeaderText } from '../../../runtime/mime/header-text.ts'
import { MAX_LINE_OCTETS } from '../../../runtime/mime/headers.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { formatAs2Name, isMessageId } from './identifiers.ts'
import { micalgOf, micOf } from './mic.ts'
import type { Mic } from './mic.ts'
import type { OutgoingFacts } from './outgoing.ts'
import { formatEntity } from './mime.ts'
import { contentEncoding, contentHeaders, micRule, smimeHeaders } from './layers.ts'
import type { SmimeLayer } from './layers.ts'
import { MAKING } from './making.ts'
import type { Making } from './making.ts'
import { parseParameters } from '../../../runtime/mime/parameters.ts'
import { isStructuralType } from '../../../runtime/mime/structural-types.ts'
import { formatMultipartSigned } from './multipart-signed.ts'
import type { PartSigning } from './multipart-signed.ts'
import { DEFAULT_AS2_VERSION, versionHeaders } from './version-headers.ts'

/** With the parameters of a multipart; a line of a header has at most 998 (RFC 5322 §2.1.1). */
const MAX_CONTENT_TYPE_CHARACTERS = 900
const MAX_URL_CHARACTERS = MAX_LINE_OCTETS - 'Receipt-Delivery-Option: '.length

export interface Outgoing extends OutgoingFacts {
  readonly content: Buffer
  /** The digests in which it gets further MICs, see furtherDigests; default none. */
  readonly further?: readonly SigningDigest[]
}

export interface ComposedMessage {
  /** Without Content-Length, which belongs to the transport. */
  readonly headers: HeaderList
  readonly body: Buffer
  /** What the receipt must show. Equal for equal content, names and algorithms: a repeat has the same. */
  readonly mic: Mic
  /**
   * For a message that is neither signed nor encrypted: the MIC over the content alone, which some products send for a
   * compressed one against RFC 5402 §4.3, and for one whose transfer encoding they have removed. Null where it is the
   * same.
   */
  readonly alternativeMic: Mic | null
  /** Both in the further digests. */
  readonly furtherMics: readonly Mic[]
  readonly messageId: string
  readonly subject: string | null
}

/** An entity while layers are put around it. */
interface Layer {
  readonly headers: HeaderList
  readonly body: Buffer
}

/** @throws ComposeError when the message cannot be made as asked */
export async function composeMessage(outgoing: Outgoing, making: Making = MAKING): Promise<ComposedMessage> {
  checkOutgoing(outgoing)
  const { signature, encryption, compression, content } = outgoing
  const transferEncoding = outgoing.transferEncoding ?? 'binary'
  const body = contentEncoding(outgoing) === 'base64' ? encodeBase64(content) : content
  const inner: Layer = { headers: contentHeaders(outgoing), body }
  const smime = (kind: SmimeLayer, bytes: Buffer): Layer => ({
    headers: smimeHeaders(kind, transferEncoding),
    body: transferEncoding === 'base64' ? encodeBase64(bytes) : bytes,
  })
  const compressed = async (layer: Layer): Promise<Layer> =>
    smime('compressedData', await formatCompressedData(entityOf(layer), making))
  let layer: Layer = inner
  let signedMic: Mic | null = null
  let signedPart: Buffer | null = null
  if (compression === 'BeforeSigning') layer = await compressed(layer)
  if (signature !== null) {
    signedPart = entityOf(layer)
    const made = await formatMultipartSigned(signedPart, signingOf(outgoing, signature), making)
    signedMic = made.mic
    layer = made
  }
  if (compression === 'AfterSigning') layer = await compressed(layer)
  if (encryption !== null) {
    const { contentType, bytes } = formatEnvelopedData(entityOf(layer), encryption, making)
    layer = smime(contentType, bytes)
  }
  const algorithm = receiptDigest(outgoing)
  const { over, alternative } = micRule(outgoing)
  const covered = signedPart ?? (over === 'body' ? inner.body : entityOf(inner))
  return {
    headers: [...transportHeaders(outgoing), ...layer.headers],
    body: layer.body,
    mic: signedMic ?? micOf(algorithm, covered),
    alternativeMic: alternative ? micOf(algorithm, content) : null,
    furtherMics: (outgoing.further ?? []).flatMap((further) =>
      [covered, ...(alternative ? [content] : [])].map((bytes) => micOf(further, bytes)),
    ),
    messageId: outgoing.messageId,
    subject: outgoing.subject === '' ? null : outgoing.subject,
  }
}

/** How the part that holds the content is signed. */
export function signingOf({ date, micalgFormat }: OutgoingFacts, signing: Signing): PartSigning {
  return { signing, signingTime: date, micalgFormat }
}

function entityOf({ headers, body }: Layer): Buffer {
  return formatEntity(headers, body)
}

/** @throws ComposeError */
export function checkOutgoing({ messageId, contentType, receipt, product, date }: OutgoingFacts): void {
  if (!isMessageId(messageId)) throw new ComposeError('a Message-ID has 1 to 998 printable ASCII characters')
  const { value } = parseParameters(contentType)
  const isText = contentType.length <= MAX_CONTENT_TYPE_CHARACTERS && /^[\x20-\x7e]+$/.test(contentType)
  if (!isText || !/^[!#-+.\w^-]+\/[!#-+.\w^-]+$/.test(value)) throw new ComposeError('not a content type')
  if (isStructuralType(value)) throw new ComposeError(`content of type ${value} cannot be sent as such`)
  const url = receipt?.asyncUrl ?? null
  if (url !== null && (url.length > MAX_URL_CHARACTERS || !/^https?:\/\/[\x21-\x7e]+$/i.test(url))) {
    throw new ComposeError('the URL for the receipt is not an http or https URL')
  }
  if (!/^[\x20-\x7e]+$/.test(product)) throw new ComposeError('the product name is not printable ASCII')
  if (Number.isNaN(date.getTime())) throw new ComposeError('the date is invalid')
}

/** The digest of the MIC: the signature's, else the one that our receipt request names, else SHA-1 (as2 default). */
export function receiptDigest({ signature, receipt }: OutgoingFacts): SigningDigest {
  if (signature !== null) return signature.algorithm
  return receipt === null ? 'SHA1' : 'SHA256'
}

/**
 * The digests in which a right MIC counts as well. Some products pass over what a request names, or what a message is
 * signed with, and use the default of old, SHA-1, that of today, SHA-256, or what they sign their receipts with.
 */
export function furtherDigests(outgoing: OutgoingFacts): SigningDigest[] {
  if (outgoing.receipt === null) return []
  const first = receiptDigest(outgoing)
  return (['SHA256', 'SHA1', 'SHA384', 'SHA512'] as const).filter((digest) => digest !== first)
}

export function transportHeaders(outgoing: OutgoingFacts): HeaderList {
  const { as2From, as2To, messageId, subject, date, receipt, product } = outgoing
  const headers: (readonly [string, string])[] = [
    ...versionHeaders(outgoing.as2Version ?? DEFAULT_AS2_VERSION, product),
    ['AS2-From', formatAs2Name(as2From)],
    ['AS2-To', formatAs2Name(as2To)],
    ['Message-ID', messageId],
    ['Date', date.toUTCString()],
  ]
  if (subject !== null && subject !== '') headers.push(['Subject', encodeHeaderText(subject)])
  headers.push(['MIME-Version', '1.0'], ['User-Agent', product])
  if (receipt !== null) {
    // Any value asks for a receipt; none of it is used as an address (RFC 4130 §7.3).
    headers.push(['Disposition-Notification-To', formatAs2Name(as2From)])
    // Without the protocol the receipt is wanted unsigned; which digest its MIC is in, it must be told all the same.
    const protocol = receipt.signed ? 'signed-receipt-protocol=optional, pkcs7-signature; ' : ''
    const micalg = micalgOf(receiptDigest(outgoing), outgoing.micalgFormat)
    headers.push(['Disposition-Notification-Options', `${protocol}signed-receipt-micalg=optional, ${micalg}`])
    if (receipt.asyncUrl !== null) headers.push(['Receipt-Delivery-Option', receipt.asyncUrl])
  }
  return headers
}
