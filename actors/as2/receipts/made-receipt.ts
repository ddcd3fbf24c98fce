import type { KeyPair, Partnership } from '../profiles/partnership.ts'
import { PROCESSED, type Disposition } from '../protocol/disposition.ts'
import type { Envelope } from '../protocol/envelope.ts'
import { newMessageId } from '../protocol/identifiers.ts'
import { composeReceipt } from '../protocol/receipt.ts'
import { dispositionOf } from '../protocol/refusal.ts'
import { receiptSigning } from './signing.ts'
import { toReceiptStage } from './stage.ts'
import { micOfVerdict, type Verdict } from '../receiving/verdict.ts'

/** A receipt that was made and is not sent yet. */
export interface MadeReceipt {
  /** As it is stored, see receipt-stage.ts. */
  readonly stage: Buffer
  readonly messageId: string
  readonly signed: boolean
  readonly at: Date
  /** Where it is sent by itself; null where the answer to the message holds it. */
  readonly asyncUrl: string | null
}

/** Makes the receipt that a message asks for; null when it asks for none. */
export async function makeReceipt(
  envelope: Envelope,
  circumstances: {
    readonly partnership: Partnership | null
    readonly ownSigning: KeyPair | null
    readonly verdict: Verdict
    readonly product: string
    readonly asyncUrl: string | null
  },
): Promise<MadeReceipt | null> {
  const { partnership, ownSigning, verdict, product, asyncUrl } = circumstances
  const request = envelope.receiptRequest
  if (request === null) return null
  const signature = receiptSigning(request, { partnership, ownSigning, verdict })
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
    signature,
    ...(partnership === null ? {} : wordingOf(partnership)),
  })
  const stage = toReceiptStage(composed.headers, composed.body)
  return { stage, messageId, signed: signature !== null, at, asyncUrl }
}

export function dispositionFor(verdict: Verdict): Disposition {
  return verdict.kind === 'taken' ? PROCESSED : dispositionOf(verdict.refusal.modifier)
}

/** How the partner's product wants things said. */
function wordingOf({ row }: Partnership) {
  return { as2Version: row.as2_version, micalgFormat: row.micalg_format }
}
