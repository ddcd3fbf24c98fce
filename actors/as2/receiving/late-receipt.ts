import { journaled } from '../../../storage/exchange/stages.ts'
import { keepReceipt } from '../../../storage/receipts/late-receipt.ts'
import { RECEIPT_LASTS_SECONDS } from '../../../storage/receipts/receipt-dispatches.ts'
import type { KnownMessage } from '../../../storage/sql/duplicate.ts'
import { as2Facts } from '../facts.ts'
import type { Mic } from '../protocol/mic.ts'
import type { IncomingFacts } from '../protocol/incoming.ts'
import type { MadeReceipt } from '../receipts/made-receipt.ts'
import { fromReceiptStage } from '../receipts/stage.ts'
import { receiptFactsOf } from './inbound-facts.ts'
import { RECEIPT_FOLLOWS, type InboundOptions, type Reply } from './reply.ts'
import type { Verdict } from './verdict.ts'

/** A message as it was opened, and would be taken if it were not here already. */
export interface OpenedRepeat {
  readonly incoming: IncomingFacts
  /** Of its content, lower case hexadecimal. */
  readonly contentSha256: string | null
  /** Makes the receipt that it asks for; null when it asks for none. */
  readonly receiptFor: (verdict: Verdict) => Promise<MadeReceipt | null>
}

/**
 * A message came without a wish for a receipt, and comes again with one: the receipt is made now, and kept as if it had
 * been asked for at first. Null where it has one by now: another repeat was faster.
 */
export async function lateReceipt(
  { pool, source, receiptWaits }: InboundOptions,
  known: KnownMessage,
  { incoming, contentSha256, receiptFor }: OpenedRepeat,
): Promise<Reply | null> {
  // A receipt tells of what is kept here, which need not be what came with this request.
  const isSame = contentSha256 === known.content_sha256
  const mic = isSame ? incoming.mic : micOf(known)
  if (mic === null) return null
  const verdict: Verdict = { kind: 'taken', incoming: { ...incoming, mic } }
  const receipt = await receiptFor(verdict)
  if (receipt === null) return null
  const { asyncUrl, stage } = receipt
  const isKept = await keepReceipt(pool, {
    messageId: known.id,
    module: 'as2',
    facts: receiptFactsOf(verdict, receipt),
    stage: journaled('receipt', stage),
    receiver: source,
    dispatch: asyncUrl === null ? null : { url: asyncUrl, lastsSeconds: RECEIPT_LASTS_SECONDS },
  })
  if (!isKept) return null
  if (asyncUrl === null) return { status: 200, ...fromReceiptStage(stage), accepted: null }
  receiptWaits()
  return { ...RECEIPT_FOLLOWS, accepted: null }
}

/** The MIC that a message was taken in with. */
export function micOf({ protocols }: KnownMessage): Mic | null {
  const { mic = null, mic_algorithm = null } = as2Facts(protocols) ?? {}
  return mic === null || mic_algorithm === null ? null : ({ value: mic, algorithm: mic_algorithm } as Mic)
}
