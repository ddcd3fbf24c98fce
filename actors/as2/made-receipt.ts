import type { Partnership } from './partnership.ts'
import type { SigningDigest } from './protocol/algorithms.ts'
import { PROCESSED, type Disposition } from './protocol/disposition.ts'
import type { Envelope } from './protocol/envelope.ts'
import { newMessageId } from './protocol/identifiers.ts'
import { composeReceipt } from './protocol/receipt.ts'
import { dispositionOf } from './protocol/refusal.ts'
import { toReceiptStage } from './receipt-stage.ts'
import { micOfVerdict, type Verdict } from './verdict.ts'

/** A receipt that was made and is not sent yet. */
export interface MadeReceipt {
  /** As it is stored, see receipt-stage.ts. */
  readonly stage: Buffer
  readonly messageId: string
  readonly signed: boolean
  readonly at: Date
}

/** Makes the synchronous receipt that a message asks for; null when it asks for none. */
export async function makeReceipt(
  envelope: Envelope,
  circumstances: {
    readonly partnership: Partnership | null
    readonly verdict: Verdict
    readonly product: string
  },
): Promise<MadeReceipt | null> {
  const { partnership, verdict, product } = circumstances
  const request = envelope.receiptRequest
  if (request === null || request.asyncUrl !== null) return null
  const signing = request.signed ? (partnership?.signing ?? null) : null
  const messageId = newMessageId('waybill')
  const at = new Date()
  const composed = await composeReceipt({
    as2From: envelope.as2To,
    as2To: envelope.as2From,
    originalMessageId: envelope.messageId,
    disposition: dispositionFor(verdict),
    mic: micOfVerdict(verdict),
    text: verdict.kind === 'taken' ? 'The message was received.' : verdict.refusal.message,
    messageId,
    product,
    date: at,
    signature: signing === null ? null : { algorithm: digestFor(verdict), scheme: 'PKCS1', ...signing },
  })
  return { stage: toReceiptStage(composed.headers, composed.body), messageId, signed: signing !== null, at }
}

export function dispositionFor(verdict: Verdict): Disposition {
  return verdict.kind === 'taken' ? PROCESSED : dispositionOf(verdict.refusal.modifier)
}

/** A signed receipt uses the digest of the message's own signature, which the partner so surely knows. */
function digestFor(verdict: Verdict): SigningDigest {
  return (verdict.kind === 'taken' ? verdict.incoming.algorithms.signature : null) ?? 'SHA256'
}
