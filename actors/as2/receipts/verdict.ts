import type { HistoryKind } from '../../../storage/exchange/states.ts'
import { invalidityOfSigner } from '../profiles/certificate-validity.ts'
import type { ReceiptFacts } from '../facts.ts'
import type { Partnership } from '../profiles/partnership.ts'
import { isPositive } from '../protocol/disposition.ts'
import { sameMessageId } from '../protocol/identifiers.ts'
import { micEquals, type Mic } from '../protocol/mic.ts'
import type { Receipt } from '../protocol/receipt.ts'

/** What a receipt is held against, whichever way it came. */
export interface Sent {
  readonly messageId: string
  readonly signed: boolean
  /** Whether a signed receipt was asked for. */
  readonly receiptSigned: boolean
  /** Of what was sent under this Message-ID, in this attempt and in those before: any of them counts. */
  readonly mics: readonly Mic[]
}

/** What a genuine receipt says of the message. */
export interface ReceiptVerdict {
  readonly facts: ReceiptFacts
  /** Why the delivery has failed; null for a positive receipt. */
  readonly failure: string | null
  readonly line: { readonly kind: HistoryKind; readonly text: string }
}

/** Why a receipt with a verified signature, or without any, is not the one of the message; null when it is. */
export function notGenuine(
  receipt: Receipt,
  { messageId, receiptSigned }: Sent,
  { partnership, now }: { readonly partnership: Partnership; readonly now: Date },
): string | null {
  if (receiptSigned && !receipt.signed) return 'The receipt is not signed, as was asked for'
  const invalid = invalidityOfSigner(partnership, receipt.signer, now)
  if (invalid !== null && !partnership.row.accept_expired_certificates)
    return `The receipt is signed with a certificate that does not count: ${invalid}`
  const { originalMessageId } = receipt
  const isOurs = originalMessageId !== null && sameMessageId(originalMessageId, messageId)
  return isOurs ? null : 'The receipt is for another message'
}

/** Judges a genuine receipt: a negative one, or one whose MIC differs, is the partner's word, and the delivery has failed. */
export function verdictOf(
  receipt: Receipt,
  sent: Sent,
  circumstances: {
    readonly mode: ReceiptFacts['mode']
    readonly partnership: Partnership
    readonly now: Date
  },
): ReceiptVerdict {
  const { mode, partnership, now } = circumstances
  const { mic, signed, messageId } = receipt
  const unreadableMic = receipt.unreadableMic === null ? null : told(receipt.unreadableMic)
  const invalid = invalidityOfSigner(partnership, receipt.signer, now)
  const though = invalid === null ? '' : ` (accepted, though ${invalid})`
  const dispositionText = told(receipt.dispositionText)
  const matches = matchOf(receipt, sent)
  const failure = refusalOf({ ...receipt, dispositionText, unreadableMic }, matches, sent)
  return {
    facts: {
      mode,
      signed,
      state: failure === null ? 'received' : 'refused',
      disposition: dispositionText,
      mic: mic?.value ?? unreadableMic,
      mic_matches: matches,
      message_id: messageId === null ? null : told(messageId),
      at: now.toISOString(),
    },
    failure,
    line:
      failure === null
        ? { kind: 'mdn_received', text: dispositionText + though }
        : { kind: 'mdn_refused', text: failure },
  }
}

/** Null where the receipt has no MIC. One that cannot be read is not that of the message. */
function matchOf({ mic, unreadableMic }: Receipt, { mics }: Sent): boolean | null {
  if (mic === null) return unreadableMic === null ? null : false
  return mics.some((each) => micEquals(mic, each))
}

const MAX_TOLD_CHARACTERS = 998

/** Records hold text that can be shown, and not more than is read. */
function told(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '_').slice(0, MAX_TOLD_CHARACTERS)
}

function refusalOf(receipt: Receipt, micMatches: boolean | null, sent: Sent): string | null {
  if (!isPositive(receipt.disposition)) return `The partner refused the message: ${receipt.dispositionText}`
  if (receipt.unreadableMic !== null) return `The MIC of the receipt cannot be read: ${receipt.unreadableMic}`
  if (micMatches === false) return 'The MIC of the receipt differs from the MIC of the message that was sent'
  // RFC 4130 §7.4.3: the MIC is required in signed receipts, and optional in unsigned ones.
  if (micMatches === null && sent.signed && sent.receiptSigned)
    return 'The receipt of a signed message has no MIC'
  return null
}
