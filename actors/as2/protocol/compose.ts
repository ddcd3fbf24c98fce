/** Makes an AS2 message: HTTP headers and body, and the MIC that its receipt must show. */
import { DIGESTS } from './algorithms.ts'
import { formatCompressedData } from './cms/compressed-data.ts'
import { formatEnvelopedData } from './cms/enveloped-data.ts'
import type { Encryption } from './cms/enveloped-data.ts'
import type { Signing } from './cms/signature.ts'
import { ComposeError } from './compose-error.ts'
import { encodeHeaderText } from './header-text.ts'
import type { HeaderList } from './headers.ts'
import { formatAs2Name, isMessageId } from './identifiers.ts'
import { micOf } from './mic.ts'
import type { Mic } from './mic.ts'
import { formatEntity } from './mime.ts'
import { formatAttachment, parseParameters } from './parameters.ts'
import { formatMultipartSigned } from './multipart-signed.ts'

const AS2_VERSION = '1.2'
const MAX_CONTENT_TYPE_CHARACTERS = 255
const MAX_URL_CHARACTERS = 2_048
/** Content of these types could not be told from a layer of S/MIME. */
const LAYER_TYPES: ReadonlySet<string> = new Set([
  'multipart/signed',
  'application/pkcs7-mime',
  'application/x-pkcs7-mime',
])

export type Compression = 'None' | 'BeforeSigning' | 'AfterSigning'

export interface Outgoing {
  readonly as2From: string
  readonly as2To: string
  /** As it travels, with its brackets. A repeat carries the same. */
  readonly messageId: string
  /** Any Unicode; null or empty for none. */
  readonly subject: string | null
  /** Also the time of signing. */
  readonly date: Date
  /** Any Unicode; null or empty for none. */
  readonly fileName: string | null
  readonly contentType: string
  readonly content: Buffer
  readonly compression: Compression
  readonly signature: Signing | null
  readonly encryption: Encryption | null
  readonly receipt: { readonly signed: boolean; readonly asyncUrl: string | null } | null
  /** `name/version`, for the header User-Agent. */
  readonly product: string
}

export interface ComposedMessage {
  /** Without Content-Length, which belongs to the transport. */
  readonly headers: HeaderList
  readonly body: Buffer
  /** What the receipt must show. Equal for equal content, names and algorithms: a repeat has the same. */
  readonly mic: Mic
  /**
   * For a message that is compressed but neither signed nor encrypted: the MIC without MIME headers, which some
   * products send against RFC 5402 §4.3; else null.
   */
  readonly alternativeMic: Mic | null
  readonly messageId: string
  readonly subject: string | null
}

/** An entity while layers are put around it. */
interface Layer {
  readonly headers: HeaderList
  readonly body: Buffer
}

/** @throws ComposeError when the message cannot be made as asked */
export async function composeMessage(outgoing: Outgoing): Promise<ComposedMessage> {
  check(outgoing)
  const { signature, encryption, compression, content } = outgoing
  const inner = contentLayer(outgoing)
  let layer: Layer = inner
  let signedMic: Mic | null = null
  if (compression === 'BeforeSigning') layer = await compressed(layer)
  if (signature !== null) {
    const part = formatEntity(layer.headers, layer.body)
    const made = await formatMultipartSigned(part, signature, outgoing.date)
    signedMic = made.mic
    layer = made
  }
  if (compression === 'AfterSigning') layer = await compressed(layer)
  if (encryption !== null) layer = encrypted(layer, encryption)
  const algorithm = receiptDigest(outgoing)
  const wrapped = encryption !== null || compression !== 'None'
  const entity = wrapped && signature === null ? formatEntity(inner.headers, inner.body) : content
  return {
    headers: [...transportHeaders(outgoing), ...layer.headers],
    body: layer.body,
    mic: signedMic ?? micOf(algorithm, entity),
    alternativeMic: wrapped && signature === null && encryption === null ? micOf(algorithm, content) : null,
    messageId: outgoing.messageId,
    subject: outgoing.subject === '' ? null : outgoing.subject,
  }
}

function check({ messageId, contentType, receipt, product, date }: Outgoing): void {
  if (!isMessageId(messageId)) throw new ComposeError('a Message-ID has 1 to 998 printable ASCII characters')
  const { value } = parseParameters(contentType)
  const isText = contentType.length <= MAX_CONTENT_TYPE_CHARACTERS && /^[\x20-\x7e]+$/.test(contentType)
  if (!isText || !/^[!#-+.\w^-]+\/[!#-+.\w^-]+$/.test(value)) throw new ComposeError('not a content type')
  if (LAYER_TYPES.has(value)) throw new ComposeError(`content of type ${value} cannot be sent as such`)
  const url = receipt?.asyncUrl ?? null
  if (url !== null && (url.length > MAX_URL_CHARACTERS || !/^https?:\/\/[\x21-\x7e]+$/i.test(url))) {
    throw new ComposeError('the URL for the receipt is not an http or https URL')
  }
  if (!/^[\x20-\x7e]+$/.test(product)) throw new ComposeError('the product name is not printable ASCII')
  if (Number.isNaN(date.getTime())) throw new ComposeError('the date is invalid')
}

/** The innermost entity. What the MIC covers depends on the message alone, never on chance or on the time. */
function contentLayer({ contentType, fileName, content }: Outgoing): Layer {
  const disposition: HeaderList =
    fileName === null || fileName === '' ? [] : [['Content-Disposition', formatAttachment(fileName)]]
  const encoding: HeaderList = [['Content-Transfer-Encoding', 'binary']]
  return { headers: [['Content-Type', contentType], ...encoding, ...disposition], body: content }
}

async function compressed({ headers, body }: Layer): Promise<Layer> {
  return smimeLayer('compressed-data', 'smime.p7z', await formatCompressedData(formatEntity(headers, body)))
}

function encrypted({ headers, body }: Layer, encryption: Encryption): Layer {
  const { contentType, bytes } = formatEnvelopedData(formatEntity(headers, body), encryption)
  // RFC 8551 §3.2.2
  const type = contentType === 'authEnvelopedData' ? 'authEnveloped-data' : 'enveloped-data'
  return smimeLayer(type, 'smime.p7m', bytes)
}

function smimeLayer(smimeType: string, fileName: string, body: Buffer): Layer {
  return {
    headers: [
      ['Content-Type', `application/pkcs7-mime; smime-type=${smimeType}; name="${fileName}"`],
      ['Content-Transfer-Encoding', 'binary'],
      ['Content-Disposition', formatAttachment(fileName)],
    ],
    body,
  }
}

/** The digest of the MIC: the signature's, else the one that our receipt request names, else SHA-1 (as2 default). */
function receiptDigest({ signature, receipt }: Outgoing): 'SHA1' | 'SHA256' | 'SHA384' | 'SHA512' {
  if (signature !== null) return signature.algorithm
  return receipt?.signed === true ? 'SHA256' : 'SHA1'
}

function transportHeaders(outgoing: Outgoing): HeaderList {
  const { as2From, as2To, messageId, subject, date, receipt, product } = outgoing
  const headers: (readonly [string, string])[] = [
    ['AS2-Version', AS2_VERSION],
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
    if (receipt.signed) {
      const { micalg } = DIGESTS[receiptDigest(outgoing)]
      const options = `signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=optional, ${micalg}`
      headers.push(['Disposition-Notification-Options', options])
    }
    if (receipt.asyncUrl !== null) headers.push(['Receipt-Delivery-Option', receipt.asyncUrl])
  }
  return headers
}
