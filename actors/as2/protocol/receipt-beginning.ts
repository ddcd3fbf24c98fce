/** What is too large for a receipt, and says that it is one: known by its first bytes. */
import { HeaderFields } from '../../../runtime/mime/headers.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { boundaryOf, MultipartScanner } from '../../../runtime/mime/multipart-scanner.ts'
import { parseParameters } from '../../../runtime/mime/parameters.ts'
import { decodeBody, MimeError, parseEntity } from './mime.ts'
import type { Entity } from './mime.ts'
import { isReceiptType, NOTIFICATION, readFields } from './receipt.ts'

const MAX_PARTS = 10

export interface BegunReceipt {
  /** The message that it says it is for; null where that is not among the first bytes. */
  readonly originalMessageId: string | null
}

/** Null where the first bytes do not begin a receipt, or it cannot be known by them, as within an opaque signature. */
export function begunReceipt(headers: HeaderList, first: Buffer): BegunReceipt | null {
  try {
    const whole: Entity = { headers: new HeaderFields(headers), body: first, raw: first }
    const report = typeOf(whole) === 'multipart/signed' ? partsBegun(whole)[0] : whole
    return report === undefined ? null : begunReport(report)
  } catch (thrown) {
    if (thrown instanceof MimeError) return null
    throw thrown
  }
}

function begunReport(report: Entity): BegunReceipt | null {
  const isReport = typeOf(report) === 'multipart/report'
  const parts = isReport ? partsBegun(report) : [report]
  const notification = parts.find((part) => typeOf(part) === NOTIFICATION)
  const isReceipt = notification !== undefined || isReceiptType(report.headers.get('content-type') ?? '')
  if (!isReceipt) return null
  return { originalMessageId: notification === undefined ? null : messageIdOf(notification) }
}

function messageIdOf(notification: Entity): string | null {
  try {
    return readFields(decodeBody(notification)).get('original-message-id')
  } catch (thrown) {
    if (thrown instanceof MimeError) return null
    throw thrown
  }
}

/** The last of them may end where the first bytes do. */
function partsBegun({ headers, body }: Entity): Entity[] {
  const parts: Buffer[][] = []
  const visitor = {
    begin: () => void parts.push([]),
    bytes: (bytes: Buffer) => void parts.at(-1)?.push(bytes),
    end: () => undefined,
  }
  const boundary = boundaryOf(headers.get('content-type') ?? '')
  new MultipartScanner({ boundary, maxParts: MAX_PARTS, visitor }).write(body)
  return parts.map((bytes) => parseEntity(Buffer.concat(bytes), 'part'))
}

function typeOf({ headers }: Entity): string {
  return parseParameters(headers.get('content-type') ?? '').value
}
