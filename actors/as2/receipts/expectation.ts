import type { Pool } from 'pg'
import { crashPoint } from '../../../runtime/crash-point.ts'
import type { AttemptResult } from '../../../storage/exchange/consumer.ts'
import { expectReceipt } from '../../../storage/receipts/expected-receipts.ts'
import type { ClaimedDelivery } from '../../../storage/sql/claim.ts'
import type { As2Facts } from '../facts.ts'
import type { Mic } from '../protocol/mic.ts'
import { earlierMics } from './judgement.ts'
import type { Sent } from './verdict.ts'

/** What an asynchronous receipt is held against: committed before the message goes, since the receipt may be faster. */
export interface HeldAgainst extends Sent {
  /** As the message named the pair; the receipt names it the other way round. */
  readonly as2From: string
  readonly as2To: string
}

/** The form in which Message-IDs are compared: products leave the brackets out, or add them. */
export function withoutBrackets(messageId: string): string {
  return messageId
    .trim()
    .replace(/^<(.*)>$/, '$1')
    .trim()
}

/** The settlement follows the receipt that is there, and not this. */
const ANSWERED: AttemptResult = {
  outcome: { state: 'queued', error: 'The receipt has come already' },
  protocols: null,
  stage: null,
  line: null,
}

/**
 * To be called before a message is sent that asks for an asynchronous receipt. Not null: the receipt of an attempt before
 * has come, and sending it again would only tell the partner what it knows. Throws when the claim is lost.
 */
export async function announceReceipt(
  pool: Pool,
  delivery: ClaimedDelivery,
  { facts, mics }: { readonly facts: As2Facts; readonly mics: readonly Mic[] },
): Promise<AttemptResult | null> {
  const heldAgainst: HeldAgainst = {
    messageId: facts.message_id,
    signed: facts.signed === true,
    receiptSigned: facts.receipt?.signed === true,
    mics: [...mics, ...earlierMics(facts)],
    as2From: facts.as2_from,
    as2To: facts.as2_to,
  }
  const expected = await expectReceipt(pool, {
    messageId: delivery.message_id,
    deliveryId: delivery.id,
    fencing: delivery.fencing,
    sentAs: withoutBrackets(facts.message_id),
    heldAgainst,
    protocols: { as2: facts },
  })
  crashPoint('receipt-intake.expected')
  if (expected === 'lost') throw new Error('The claim was lost before the message was sent')
  return expected === 'answered' ? ANSWERED : null
}
