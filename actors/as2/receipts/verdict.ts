import type { HistoryKind } from '../../../storage/exchange/states.ts'
import { invalidityOfSigner } from '../profiles/certificate-validity.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import type { ReceiptFacts } from '../facts.ts'
import type { Partnership } from '../profiles/partnership.ts'
import { isPositive } from '../protocol/disposition.ts'
import { sameMessageId } from '../protocol/identifiers.ts'
import { micEquals, type Mic } from '../protocol/mic.ts'
import { claimedRefusal, type Receipt } from '../protocol/receipt.ts'

/** What a receipt is held against, whichever way it came. */
export interface Sent {
  readonly messageId: string
  readonly signed: boolean
  /** Whether a signed receipt was asked for. */
  readonly receiptSigned: boolean
  /** Of what was sent under this Message-ID, in this attempt and in those before: any of them counts. */
  readonly mics: readonly Mic[]
}

/** How and when a receipt came. */
export interface Coming {
  readonly partnership: Partnership
  readonly now: Date
  /** Whether it is the answer to the message, and not sent by itself. */
  readonly isAnswer: boolean
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
  { partnership, now, isAnswer }: Coming,
): string | null {
  if (receiptSigned && !receipt.signed) return 'The receipt is not signed, as was asked for'
  const invalid = invalidityOfSigner(partnership, receipt.signer, now)
  if (invalid !== null && !partnership.row.accept_expired_certificates)
    return `The receipt is signed with a certificate that does not count: ${invalid}`
  const { originalMessageId } = receipt
  if (originalMessageId !== null)
    return sameMessageId(originalMessageId, messageId) ? null : 'The receipt is for another message'
  return isAnswer && isSignedRefusal(receipt) ? null : 'The receipt names no message'
}

/** A partner that cannot tell what came may not know its id either; the answer to it needs none to be of it. */
function isSignedRefusal({ signer, disposition }: Receipt): boolean {
  return signer !== null && !isPositive(disposition)
}

/** So much of a claim is told. */
const MAX_CLAIM_CHARACTERS = 300

/** For whoever looks into it, after the reason why a receipt counts for nothing: that it refuses the message. */
export function unproven(headers: HeaderList, body: Buffer): string {
  const claim = claimedRefusal(headers, body)
  return claim === null ? '' : `. Without proof it says: ${told(claim).slice(0, MAX_CLAIM_CHARACTERS)}`
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
  const unverified = receipt.unverified ? UNVERIFIED : ''
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
        ? { kind: 'mdn_received', text: dispositionText + though + unverified }
        : { kind: 'mdn_refused', text: failure + unverified },
  }
}

/** Null where the receipt has no MIC. One that cannot be read is not that of the message. */
function matchOf({ mic, unreadableMic }: Receipt, { mics }: Sent): boolean | null {
  if (mic === null) return unreadableMic === null ? null : false
  return mics.some((each) => micEquals(mic, each))
}

const UNVERIFIED = ' (read as unsigned: the profile has no certificate to verify its signature with)'
const MAX_TOLD_CHARACTERS = 998

/** Records hold text that can be shown, and not more than is read. */
function told(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '_').slice(0, MAX_TOLD_CHARACTERS)
}

function refusalOf(receipt: Receipt, micMatches: boolean | null, sent: Sent): string | null {
  if (!isPositive(receipt.disposition)) return `The partner refused the message: ${receipt.dispositionText}`
  if (receipt.unreadableMic !== null) return `The MIC of the receipt cannot be read: ${receipt.unreadableMic}`
  if (micMatches === false) return differs(receipt.mic, sent.mics)
  // RFC 4130 §7.4.3: the MIC is required in signed receipts, and optional in unsigned ones.
  if (micMatches === null && sent.signed && sent.receiptSigned)
    return 'The receipt of a signed message has no MIC'
  return null
}

function differs(mic: Mic | null, sent: readonly Mic[]): string {
  if (mic === null || sent.length === 0 || sent.some(({ algorithm }) => algorithm === mic.algorithm))
    return 'The MIC of the receipt differs from the MIC of the message that was sent'
  return `The MIC of the receipt is in ${mic.algorithm}, a digest in which none counts`
}
