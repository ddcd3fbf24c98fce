import { reasonOf } from '../../runtime/errors.ts'
import type { AttemptResult } from '../../storage/exchange/consumer.ts'
import { journaled } from '../../storage/exchange/stages.ts'
import type { As2Facts, ReceiptFacts } from './facts.ts'
import type { Answer } from './http-client.ts'
import type { Partnership } from './partnership.ts'
import { isPositive } from './protocol/disposition.ts'
import { sameMessageId } from './protocol/identifiers.ts'
import { micEquals, type Mic } from './protocol/mic.ts'
import { readReceipt, type Receipt } from './protocol/receipt.ts'
import { Refusal } from './protocol/refusal.ts'
import { toReceiptStage } from './receipt-stage.ts'

export interface Judgement {
  readonly answer: Answer
  readonly partnership: Partnership
  readonly facts: As2Facts
  /** Of what was sent; some products compute another one, which counts as well. */
  readonly mics: readonly Mic[]
  readonly now: Date
}

/**
 * What a partner's synchronous answer means for the delivery. A receipt that is not the partner's own (wrong or no
 * signature, another message's id) proves nothing and counts as none: the attempt is repeated under the same
 * Message-ID. A negative receipt, or one whose MIC differs, is the partner's word, and the delivery has failed.
 */
export async function judgeAnswer(judgement: Judgement): Promise<AttemptResult> {
  const { answer, facts } = judgement
  if (facts.receipt === null) {
    return { outcome: { state: 'delivered' }, protocols: { as2: facts }, stage: null, line: null }
  }
  const receipt = await genuineReceipt(judgement)
  const { mic } = receipt
  const matches = mic === null ? null : wasSent(mic, judgement)
  const refusal = refusalOf(receipt, matches, facts)
  const receiptFacts: ReceiptFacts = {
    ...facts.receipt,
    signed: receipt.signed,
    state: refusal === null ? 'received' : 'refused',
    disposition: receipt.dispositionText,
    mic: mic?.value ?? null,
    mic_matches: matches,
    message_id: receipt.messageId,
    at: judgement.now.toISOString(),
  }
  return {
    outcome: refusal === null ? { state: 'delivered' } : { state: 'failed', error: refusal },
    protocols: { as2: { ...facts, receipt: receiptFacts } },
    stage: journaled('receipt', toReceiptStage(answer.headers, answer.body)),
    line:
      refusal === null
        ? { kind: 'mdn_received', text: receipt.dispositionText }
        : { kind: 'mdn_refused', text: refusal },
  }
}

async function genuineReceipt({ answer, partnership, facts }: Judgement): Promise<Receipt> {
  let receipt: Receipt
  try {
    receipt = await readReceipt({ headers: answer.headers, body: answer.body, signers: partnership.signers })
  } catch (error) {
    throw new Error(`The partner answered ${describe(answer)}, which is not the receipt: ${reason(error)}`, {
      cause: error,
    })
  }
  if (partnership.row.receipt_signed && !receipt.signed)
    throw new Error('The receipt is not signed, as was asked for')
  if (receipt.originalMessageId === null || !sameMessageId(receipt.originalMessageId, facts.message_id)) {
    throw new Error('The receipt is for another message')
  }
  return receipt
}

/** The answer in the operator's words: the reasons of a refusal, not what it tells a partner. */
function reason(error: unknown): string {
  return error instanceof Refusal ? error.reason : reasonOf(error)
}

function describe({ status, headers, body }: Answer): string {
  const [, contentType] = headers.find(([name]) => name.toLowerCase() === 'content-type') ?? []
  const content =
    body.length === 0
      ? 'nothing'
      : `${body.length} bytes of ${contentType?.slice(0, 100) ?? 'no content type'}`
  return `HTTP status ${status} with ${content}`
}

/** Whether the MIC is of what was sent, in this attempt or in an earlier one under the same Message-ID. */
function wasSent(mic: Mic, { mics, facts }: Judgement): boolean {
  const earlier = facts.earlier_mics ?? []
  return (
    mics.some((sent) => micEquals(mic, sent)) ||
    earlier.some((sent) => sent.mic === mic.value && sent.mic_algorithm === mic.algorithm)
  )
}

/** Why the receipt does not confirm the message; null when it does. */
function refusalOf(receipt: Receipt, micMatches: boolean | null, facts: As2Facts): string | null {
  if (!isPositive(receipt.disposition)) return `The partner refused the message: ${receipt.dispositionText}`
  if (micMatches === false) return 'The MIC of the receipt differs from the MIC of the message that was sent'
  if (micMatches === null && facts.signed) return 'The receipt of a signed message has no MIC'
  return null
}
