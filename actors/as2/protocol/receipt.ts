/** Receipts: message disposition notifications (RFC 4130 §7.4, RFC 3798), signed or not. */
import { Asn1Error } from './asn1/asn1-error.ts'
import { readContentInfo } from './cms/content-info.ts'
import { CONTENT_TYPE } from './cms/oids.ts'
import type { Signing } from './cms/signature.ts'
import { readSignedData } from './cms/signed-data.ts'
import type { SignedData } from './cms/signed-data.ts'
import { verifySignature } from './cms/verification.ts'
import type { Signer } from './cms/verification.ts'
import { ComposeError } from './compose-error.ts'
import { formatDisposition, isPositive, parseDisposition } from './disposition.ts'
import type { Disposition } from './disposition.ts'
import { HeaderFields, parseHeaderBlock } from '../../../runtime/mime/headers.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { formatAs2Name, isMessageId } from './identifiers.ts'
import { formatMic, parseMic } from './mic.ts'
import type { Mic, MicalgFormat } from './mic.ts'
import { cmsBytes, decodeBody, formatEntity, MimeError, parseEntity, splitMultipart } from './mime.ts'
import type { Entity } from './mime.ts'
import { newBoundary } from './making.ts'
import { formatMultipartSigned, openMultipartSigned } from './multipart-signed.ts'
import { parseParameters } from '../../../runtime/mime/parameters.ts'
import { Refusal } from './refusal.ts'
import { DEFAULT_AS2_VERSION, versionHeaders } from './version-headers.ts'
import type { As2Version } from './version-headers.ts'

export const NOTIFICATION = 'message/disposition-notification'
const MAX_REPORT_PARTS = 10
const MAX_TEXT_CHARACTERS = 10_000

export interface OutgoingReceipt {
  /** Whoever sends the receipt: the AS2-To of the message. */
  readonly as2From: string
  readonly as2To: string
  /** Of the receipt itself, with its brackets; null for none. */
  readonly messageId: string | null
  readonly date: Date
  /** Exactly as the message carried it; null when it had none. */
  readonly originalMessageId: string | null
  readonly disposition: Disposition
  readonly mic: Mic | null
  /** For people; plain ASCII. */
  readonly text: string
  readonly signature: Signing | null
  /** `name/version`, for the field Reporting-UA and the header AS2-Product. */
  readonly product: string
  /** Default 1.3. */
  readonly as2Version?: As2Version
  /** Default `sha-256`. */
  readonly micalgFormat?: MicalgFormat
}

export interface ComposedReceipt {
  readonly headers: HeaderList
  readonly body: Buffer
}

/** @throws ComposeError when the receipt cannot be made as asked */
export async function composeReceipt(receipt: OutgoingReceipt): Promise<ComposedReceipt> {
  const { as2From, as2To, messageId, date, signature, product, micalgFormat } = receipt
  const report = formatReport(receipt)
  const { headers, body } =
    signature === null
      ? report
      : await formatMultipartSigned(formatEntity(report.headers, report.body), {
          signing: signature,
          signingTime: date,
          micalgFormat,
        })
  const transport: (readonly [string, string])[] = [
    ...versionHeaders(receipt.as2Version ?? DEFAULT_AS2_VERSION, product),
    ['AS2-From', formatAs2Name(as2From)],
    ['AS2-To', formatAs2Name(as2To)],
    ['Date', date.toUTCString()],
    ['Subject', 'Message disposition notification'],
    ['MIME-Version', '1.0'],
  ]
  if (messageId !== null) transport.push(['Message-ID', checkedId(messageId)])
  return { headers: [...transport, ...headers], body }
}

function formatReport(receipt: OutgoingReceipt): { headers: HeaderList; body: Buffer } {
  const { as2From, originalMessageId, disposition, mic, text, product } = receipt
  if (!/^[\x20-\x7e\r\n]*$/.test(text) || !/^[\x20-\x7e]+$/.test(product)) {
    throw new ComposeError('the text of a receipt is not plain ASCII')
  }
  // The recipient as the sender addressed it (RFC 4130 §7.4.3), so both fields carry the same name.
  const recipient = `rfc822; ${formatAs2Name(as2From)}`
  const fields = [
    `Reporting-UA: ${product}`,
    `Original-Recipient: ${recipient}`,
    `Final-Recipient: ${recipient}`,
    ...(originalMessageId === null ? [] : [`Original-Message-ID: ${checkedId(originalMessageId)}`]),
    `Disposition: ${formatDisposition(disposition)}`,
    ...(mic === null ? [] : [`Received-content-MIC: ${formatMic(mic, receipt.micalgFormat)}`]),
  ]
  const boundary = newBoundary()
  const lines = [
    `--${boundary}`,
    'Content-Type: text/plain; charset=us-ascii',
    'Content-Transfer-Encoding: 7bit',
    '',
    ...text.split(/\r?\n/),
    `--${boundary}`,
    'Content-Type: message/disposition-notification',
    'Content-Transfer-Encoding: 7bit',
    '',
    ...fields,
    '',
    `--${boundary}--`,
    '',
  ]
  const type = `multipart/report; report-type=disposition-notification; boundary="${boundary}"`
  return { headers: [['Content-Type', type]], body: Buffer.from(lines.join('\r\n'), 'latin1') }
}

function checkedId(messageId: string): string {
  if (!isMessageId(messageId)) throw new ComposeError('a Message-ID has 1 to 998 printable ASCII characters')
  return messageId
}

export interface Receipt {
  /** Whether it bears a signature of one of the given certificates; a wrong signature is refused. */
  readonly signed: boolean
  /** Null when it bears no such signature. */
  readonly signer: Signer | null
  /** Whether it bears a signature that there is no certificate to verify with, and was read as an unsigned one. */
  readonly unverified: boolean
  readonly disposition: Disposition
  /** The field as the partner wrote it. */
  readonly dispositionText: string
  readonly originalMessageId: string | null
  readonly mic: Mic | null
  /** The MIC as the partner wrote it, where it cannot be read; null where it can, or there is none. */
  readonly unreadableMic: string | null
  /** Of the receipt itself. */
  readonly messageId: string | null
  /** What it says to people. */
  readonly text: string
}

export interface ReceivedReceipt {
  readonly headers: HeaderList
  readonly body: Buffer
  /** The certificates that the partner may sign with, DER; no others count. */
  readonly signers: readonly Buffer[]
  /** Whether an unsigned one counts as well: then a signature proves nothing more where no certificate is given. */
  readonly mayBeUnsigned?: boolean
}

/** @throws Refusal when it is not a receipt, or its signature is not of one of the given certificates */
export async function readReceipt(received: ReceivedReceipt): Promise<Receipt> {
  const { headers, body, signers, mayBeUnsigned = false } = received
  const fields = new HeaderFields(headers)
  try {
    let entity: Entity = { headers: fields, body, raw: body }
    let signer: Signer | null = null
    const unverified = mayBeUnsigned && signers.length === 0 && isSigned(entity)
    if (unverified) {
      entity = unverifiedContent(entity)
    } else if (typeOf(entity) === 'multipart/signed') {
      const { part, verification } = openMultipartSigned(entity, signers)
      entity = part
      signer = verification.signer
    } else if (isOpaque(entity)) {
      const { signed, content } = readOpaque(entity)
      signer = verifySignature(signed, [content.raw], signers).signer
      entity = content
    }
    const messageId = fields.get('message-id')
    return { ...readReport(entity), signed: signer !== null, signer, unverified, messageId }
  } catch (thrown) {
    if (!(thrown instanceof Asn1Error || thrown instanceof MimeError)) throw thrown
    const reason = `the receipt is malformed: ${thrown.message}`
    throw new Refusal('unexpected-processing-error', reason, null, { cause: thrown })
  }
}

/** Whether a message that came in is an asynchronous receipt, to be told before its signature is looked at. */
export function isReceipt(headers: HeaderList, body: Buffer): boolean {
  try {
    return isReport(unverifiedContent({ headers: new HeaderFields(headers), body, raw: body }))
  } catch (thrown) {
    if (isUnreadable(thrown)) return false
    throw thrown
  }
}

/** The message that a receipt says it is for, before its signature is looked at; null when it cannot be read. */
export function claimedMessageId(headers: HeaderList, body: Buffer): string | null {
  return claimed(headers, body, (fields) => {
    const isSaid = parseDisposition(fields.get('disposition') ?? '') !== null
    return isSaid ? single(fields, 'original-message-id') : null
  })
}

/** The disposition by which a receipt says that the message is refused, as it is written; null when it says no such thing. */
export function claimedRefusal(headers: HeaderList, body: Buffer): string | null {
  return claimed(headers, body, (fields) => {
    const text = single(fields, 'disposition') ?? ''
    const disposition = parseDisposition(text)
    return disposition === null || isPositive(disposition) ? null : text
  })
}

/** What a receipt says, before its signature is looked at: nobody has proven it. Null when it cannot be read. */
function claimed(
  headers: HeaderList,
  body: Buffer,
  read: (fields: HeaderFields) => string | null,
): string | null {
  try {
    const entity = unverifiedContent({ headers: new HeaderFields(headers), body, raw: body })
    return read(fieldsOf(entity).fields)
  } catch (thrown) {
    if (isUnreadable(thrown)) return null
    throw thrown
  }
}

function isUnreadable(thrown: unknown): boolean {
  return thrown instanceof MimeError || thrown instanceof Asn1Error || thrown instanceof Refusal
}

/** What is signed, or not, before a signature is looked at. @throws Refusal, Asn1Error, MimeError */
function unverifiedContent(entity: Entity): Entity {
  if (isOpaque(entity)) return readOpaque(entity).content
  if (typeOf(entity) !== 'multipart/signed') return entity
  const [part] = splitMultipart(entity.headers.get('content-type') ?? '', entity.body, 3)
  if (part === undefined) throw new MimeError('multipart/signed without a part')
  return parseEntity(part, 'part')
}

function isSigned(entity: Entity): boolean {
  return typeOf(entity) === 'multipart/signed' || isOpaque(entity)
}

function isOpaque(entity: Entity): boolean {
  return mayBeOpaqueSigned(entity.headers.get('content-type') ?? '')
}

/** What is signed within its signature (RFC 8551 §3.5.2). @throws Refusal, Asn1Error */
function readOpaque(entity: Entity): { readonly signed: SignedData; readonly content: Entity } {
  const { contentType, content } = readContentInfo(cmsBytes(entity))
  if (contentType !== CONTENT_TYPE.signedData) {
    throw new Refusal('unexpected-processing-error', 'the answer is CMS content that is not signed')
  }
  const signed = readSignedData(content)
  if (signed.content === null) {
    throw new Refusal('unexpected-processing-error', 'the signature comes without its content')
  }
  return { signed, content: parseEntity(signed.content, 'payload') }
}

/** Other reports (RFC 6522) tell of something else, and may be business documents; some products leave the type out. */
function isReport(entity: Entity): boolean {
  if (isReceiptType(entity.headers.get('content-type') ?? '')) return true
  return (
    typeOf(entity) === 'multipart/report' && partsOf(entity).some((part) => typeOf(part) === NOTIFICATION)
  )
}

/** Whether a Content-Type says that the entity is a receipt. */
export function isReceiptType(contentType: string): boolean {
  const { value, parameters } = parseParameters(contentType)
  const reportType = parameters.get('report-type')?.toLowerCase()
  return value === NOTIFICATION || (value === 'multipart/report' && reportType === 'disposition-notification')
}

/** Whether a Content-Type may be that of content within its signature; some products leave the S/MIME type out. */
function mayBeOpaqueSigned(contentType: string): boolean {
  const { value, parameters } = parseParameters(contentType)
  if (value !== 'application/pkcs7-mime' && value !== 'application/x-pkcs7-mime') return false
  return (parameters.get('smime-type') ?? 'signed-data').toLowerCase() === 'signed-data'
}

/** Whether an entity of a Content-Type may be a receipt, signed or not. */
export function mayBeReceiptType(contentType: string): boolean {
  const { value } = parseParameters(contentType)
  const isKnown = value === 'multipart/signed' || value === 'multipart/report' || value === NOTIFICATION
  return isKnown || mayBeOpaqueSigned(contentType)
}

function typeOf(entity: Entity): string {
  return parseParameters(entity.headers.get('content-type') ?? '').value
}

/** The fields of the one notification that a report has (RFC 3798 §3), and the first part beside it. */
function fieldsOf(entity: Entity): { readonly fields: HeaderFields; readonly text: Entity | undefined } {
  const parts = isMultipart(entity) ? partsOf(entity) : [entity]
  const [notification, ...others] = parts.filter((part) => typeOf(part) === NOTIFICATION)
  if (notification === undefined || others.length > 0) {
    const count = notification === undefined ? 'no' : 'more than one'
    throw new Refusal('unexpected-processing-error', `the answer holds ${count} disposition notification`)
  }
  const fields = readFields(decodeBody(notification))
  return { fields, text: parts.find((part) => part !== notification) }
}

/** A field may be repeated, but not contradict itself: a receipt that says two things proves neither. */
function single(fields: HeaderFields, name: string): string | null {
  const [first = null, ...others] = fields.all(name)
  if (others.some((other) => other !== first)) {
    throw new Refusal('unexpected-processing-error', `the receipt has ${name} with different values`)
  }
  return first
}

function readReport(entity: Entity): Omit<Receipt, 'signed' | 'signer' | 'unverified' | 'messageId'> {
  const { fields, text } = fieldsOf(entity)
  const dispositionText = single(fields, 'disposition') ?? ''
  const disposition = parseDisposition(dispositionText)
  if (disposition === null) {
    throw new Refusal('unexpected-processing-error', 'the receipt says neither processed nor failed')
  }
  const micText = single(fields, 'received-content-mic') ?? ''
  const mic = parseMic(micText)
  return {
    disposition,
    dispositionText,
    // Who could not read the message may leave it empty.
    originalMessageId: single(fields, 'original-message-id') || null,
    mic,
    unreadableMic: mic === null && micText !== '' ? micText : null,
    text: text === undefined ? '' : decodeBody(text).toString('utf8', 0, MAX_TEXT_CHARACTERS).trim(),
  }
}

function partsOf({ headers, body }: Entity): Entity[] {
  const parts = splitMultipart(headers.get('content-type') ?? '', body, MAX_REPORT_PARTS)
  return parts.map((part) => parseEntity(part, 'part'))
}

function isMultipart(entity: Entity): boolean {
  return typeOf(entity).startsWith('multipart/')
}

/** The fields of a notification; blank lines between them, which some products write, are passed over. */
export function readFields(body: Buffer): HeaderFields {
  const text = body.toString('latin1').replace(/(\r?\n)+/g, '\r\n')
  const block = parseHeaderBlock(Buffer.from(text.trimStart(), 'latin1'))
  if (block === null) throw new MimeError('the fields of the notification are not to be read')
  return block.fields
}
