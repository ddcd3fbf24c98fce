/** Receipts: message disposition notifications (RFC 4130 §7.4, RFC 3798), signed or not. */
import { Asn1Error } from './asn1/asn1-error.ts'
import type { Signing } from './cms/signature.ts'
import { ComposeError } from './compose-error.ts'
import { formatDisposition, parseDisposition } from './disposition.ts'
import type { Disposition } from './disposition.ts'
import { HeaderFields, parseHeaderBlock } from './headers.ts'
import type { HeaderList } from './headers.ts'
import { formatAs2Name, isMessageId } from './identifiers.ts'
import { formatMic, parseMic } from './mic.ts'
import type { Mic } from './mic.ts'
import { decodeBody, formatEntity, MimeError, parseEntity, splitMultipart } from './mime.ts'
import type { Entity } from './mime.ts'
import { formatMultipartSigned, newBoundary, openMultipartSigned } from './multipart-signed.ts'
import { parseParameters } from './parameters.ts'
import { Refusal } from './refusal.ts'

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
  /** `name/version`, for the field Reporting-UA. */
  readonly product: string
}

export interface ComposedReceipt {
  readonly headers: HeaderList
  readonly body: Buffer
}

/** @throws ComposeError when the receipt cannot be made as asked */
export async function composeReceipt(receipt: OutgoingReceipt): Promise<ComposedReceipt> {
  const { as2From, as2To, messageId, date, signature } = receipt
  const report = formatReport(receipt)
  const { headers, body } =
    signature === null
      ? report
      : await formatMultipartSigned(formatEntity(report.headers, report.body), signature, date)
  const transport: (readonly [string, string])[] = [
    ['AS2-Version', '1.2'],
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
    ...(mic === null ? [] : [`Received-content-MIC: ${formatMic(mic)}`]),
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
  readonly disposition: Disposition
  /** The field as the partner wrote it. */
  readonly dispositionText: string
  readonly originalMessageId: string | null
  readonly mic: Mic | null
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
}

/** @throws Refusal when it is not a receipt, or its signature is not of one of the given certificates */
export async function readReceipt({ headers, body, signers }: ReceivedReceipt): Promise<Receipt> {
  const fields = new HeaderFields(headers)
  try {
    let entity: Entity = { headers: fields, body, raw: body }
    const signed = typeOf(entity) === 'multipart/signed'
    if (signed) entity = openMultipartSigned(entity, signers).part
    return { ...readReport(entity), signed, messageId: fields.get('message-id') }
  } catch (thrown) {
    if (!(thrown instanceof Asn1Error || thrown instanceof MimeError)) throw thrown
    const reason = `the receipt is malformed: ${thrown.message}`
    throw new Refusal('unexpected-processing-error', reason, null, { cause: thrown })
  }
}

/** Whether a message that came in is an asynchronous receipt, to be told before its signature is looked at. */
export function isReceipt(headers: HeaderList, body: Buffer): boolean {
  const entity: Entity = { headers: new HeaderFields(headers), body, raw: body }
  try {
    if (typeOf(entity) !== 'multipart/signed') return isReport(entity)
    const [part] = splitMultipart(entity.headers.get('content-type') ?? '', body, 3)
    return part !== undefined && isReport(parseEntity(part, 'part'))
  } catch (thrown) {
    if (thrown instanceof MimeError) return false
    throw thrown
  }
}

function isReport(entity: Entity): boolean {
  const type = typeOf(entity)
  return type === 'multipart/report' || type === 'message/disposition-notification'
}

function typeOf(entity: Entity): string {
  return parseParameters(entity.headers.get('content-type') ?? '').value
}

function readReport(entity: Entity): Omit<Receipt, 'signed' | 'messageId'> {
  const parts = isMultipart(entity)
    ? splitMultipart(entity.headers.get('content-type') ?? '', entity.body, MAX_REPORT_PARTS).map((part) =>
        parseEntity(part, 'part'),
      )
    : [entity]
  const notification = parts.find((part) => typeOf(part) === 'message/disposition-notification')
  if (notification === undefined) {
    throw new Refusal('unexpected-processing-error', 'the answer holds no disposition notification')
  }
  const fields = readFields(decodeBody(notification))
  const dispositionText = fields.get('disposition') ?? ''
  const disposition = parseDisposition(dispositionText)
  if (disposition === null) {
    throw new Refusal('unexpected-processing-error', 'the receipt says neither processed nor failed')
  }
  const text = parts.find((part) => part !== notification)
  const mic = fields.get('received-content-mic')
  return {
    disposition,
    dispositionText,
    originalMessageId: fields.get('original-message-id'),
    mic: mic === null ? null : parseMic(mic),
    text: text === undefined ? '' : decodeBody(text).toString('utf8', 0, MAX_TEXT_CHARACTERS).trim(),
  }
}

function isMultipart(entity: Entity): boolean {
  return typeOf(entity).startsWith('multipart/')
}

/** The fields of a notification; blank lines between them, which some products write, are passed over. */
function readFields(body: Buffer): HeaderFields {
  const text = body.toString('latin1').replace(/(\r?\n)+/g, '\r\n')
  const block = parseHeaderBlock(Buffer.from(text.trimStart(), 'latin1'))
  if (block === null) throw new MimeError('the fields of the notification are not to be read')
  return block.fields
}
