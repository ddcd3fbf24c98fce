/** What the HTTP headers of a message say, before anything of it is decrypted or verified. */
import { digestOfSpelling } from './algorithms.ts'
import type { DigestName } from './algorithms.ts'
import { decodeHeaderText } from '../../../runtime/mime/header-text.ts'
import { HeaderFields } from '../../../runtime/mime/headers.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { isMessageId, parseAs2Name } from './identifiers.ts'
import { fileNameOf, parseParameters } from '../../../runtime/mime/parameters.ts'
import { Refusal } from './refusal.ts'

const MAX_URL_CHARACTERS = 2_048
const MAX_SUBJECT_CHARACTERS = 1_000

/** The receipt that the sender asked for (RFC 4130 §7.3). */
export interface ReceiptRequest {
  readonly signed: boolean
  /** Those of the request that are known, the preferred one first. */
  readonly micAlgorithms: readonly DigestName[]
  /** Where an asynchronous receipt goes, unchecked; null for a synchronous one. */
  readonly asyncUrl: string | null
  /** What the request requires and we cannot give: the receipt must then say so (RFC 4130 §7.5.5). */
  readonly unsupported: 'unsupported format' | 'unsupported MIC-algorithms' | null
}

export interface Envelope {
  readonly as2From: string
  readonly as2To: string
  /** As on the wire; null when there is none, or one that no receipt can repeat. */
  readonly messageId: string | null
  /** Whether there is a Message-ID, but of more than 998 characters or of others than printable ASCII. */
  readonly hasInvalidId: boolean
  readonly subject: string | null
  /** That of the HTTP header Content-Disposition, as the sender wrote it; null for none, or for that of an S/MIME object. */
  readonly fileName: string | null
  /** Null when no receipt is asked for. */
  readonly receiptRequest: ReceiptRequest | null
}

/**
 * Reads the parties, the identifier and the receipt request of a message.
 * @throws Refusal when the parties are missing or not to be understood: no receipt can answer such a message
 */
export function readEnvelope(headers: HeaderList): Envelope {
  const fields = new HeaderFields(headers)
  const as2From = readName(fields, 'as2-from')
  const as2To = readName(fields, 'as2-to')
  const id = single(fields, 'message-id')
  const hasInvalidId = id !== null && !isMessageId(id)
  const subject = fields.get('subject')
  return {
    as2From,
    as2To,
    messageId: hasInvalidId ? null : id,
    hasInvalidId,
    subject: subject === null ? null : readable(decodeHeaderText(subject)),
    fileName: readFileName(fields),
    receiptRequest: readReceiptRequest(fields),
  }
}

/** RFC 8551 §3.2.1: `smime` by custom, with the endings of S/MIME objects. */
const SMIME_NAME = /^smime\b|\.p7[cmsz]$/i

function readFileName(fields: HeaderFields): string | null {
  const name = fileNameOf(fields.get('content-disposition'), null)
  return name === null || SMIME_NAME.test(name) ? null : name
}

/** Records hold well-formed text that can be shown. */
function readable(text: string): string {
  return text
    .slice(0, MAX_SUBJECT_CHARACTERS)
    .toWellFormed()
    .replaceAll(/\p{Cc}/gu, ' ')
}

function readName(fields: HeaderFields, header: string): string {
  const value = single(fields, header)
  const name = value === null ? null : parseAs2Name(value)
  if (name === null) throw new Refusal('unexpected-processing-error', `the header ${header} names no party`)
  return name
}

/** A header that identifies may be repeated, but not contradict itself. */
function single(fields: HeaderFields, header: string): string | null {
  const [first = '', ...others] = fields.all(header)
  if (others.some((other) => other !== first)) {
    throw new Refusal('unexpected-processing-error', `the header ${header} occurs with different values`)
  }
  return first === '' ? null : first
}

function readReceiptRequest(fields: HeaderFields): ReceiptRequest | null {
  if (fields.get('disposition-notification-to') === null) return null
  const url = fields.get('receipt-delivery-option')
  if (url !== null && url.length > MAX_URL_CHARACTERS) {
    throw new Refusal('unexpected-processing-error', 'the URL for the receipt is too long')
  }
  const asyncUrl = url === null || url === '' ? null : url
  const options = readOptions(fields.get('disposition-notification-options') ?? '')
  const protocol = options.get('signed-receipt-protocol')
  const micalg = options.get('signed-receipt-micalg')
  const signed = protocol?.values.some((value) => /^(x-)?pkcs7-signature$/.test(value.toLowerCase())) ?? false
  const micAlgorithms = (micalg?.values ?? []).map(digestOfSpelling).filter((name) => name !== null)
  return {
    signed,
    micAlgorithms: [...new Set(micAlgorithms)],
    asyncUrl,
    unsupported:
      protocol?.required === true && !signed
        ? 'unsupported format'
        : micalg?.required === true && micAlgorithms.length === 0
          ? 'unsupported MIC-algorithms'
          : null,
  }
}

/** `signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=required, sha-256, sha1` */
function readOptions(field: string): Map<string, { required: boolean; values: string[] }> {
  const { parameters } = parseParameters(`; ${field}`)
  const options = new Map<string, { required: boolean; values: string[] }>()
  for (const [name, text] of parameters) {
    const [importance = '', ...values] = text.split(',').map((part) => part.trim())
    options.set(name, { required: importance.toLowerCase() === 'required', values })
  }
  return options
}
