import { reasonOf } from '../../../runtime/errors.ts'
import type { AttemptResult } from '../../../storage/exchange/consumer.ts'
import { journaled } from '../../../storage/exchange/stages.ts'
import { checkStatus } from '../sending/answer-status.ts'
import type { As2Facts, ReceiptFacts } from '../facts.ts'
import type { Answer } from '../sending/http-client.ts'
import type { DigestName } from '../protocol/algorithms.ts'
import type { Partnership } from '../profiles/partnership.ts'
import { isPositive } from '../protocol/disposition.ts'
import type { Mic } from '../protocol/mic.ts'
import { isReceipt, readReceipt, type Receipt } from '../protocol/receipt.ts'
import { Refusal } from '../protocol/refusal.ts'
import { ForgedReceipt } from './forged-receipt.ts'
import { toReceiptStage } from './stage.ts'
import { notGenuine, unproven, verdictOf, type Sent } from './verdict.ts'

export interface Judgement {
  readonly answer: Answer
  readonly partnership: Partnership
  readonly facts: As2Facts
  /** Of what was sent; some products compute another one, which counts as well. */
  readonly mics: readonly Mic[]
  /** Those in one more digest, which take their time: asked for where a genuine receipt has its MIC in it. */
  readonly furtherMics: (algorithm: DigestName) => Promise<readonly Mic[]>
  readonly now: Date
}

const HOUR_SECONDS = 3_600

/**
 * What a partner's answer means for the delivery. A receipt that is not the partner's own (wrong or no signature, another
 * message's id) proves nothing and counts as none: the attempt is repeated under the same Message-ID. Where an
 * asynchronous receipt was asked for, any 2xx without one says that it will come; one that is there already counts.
 */
export async function judgeAnswer(judgement: Judgement): Promise<AttemptResult> {
  const { answer, facts } = judgement
  const asked = facts.receipt
  if (asked === null) {
    const refused = await unaskedRefusal(judgement)
    if (refused !== null) return refused
    checkStatus(answer)
    return { outcome: { state: 'delivered' }, protocols: { as2: facts }, stage: null, line: null }
  }
  if (asked.mode === 'Async' && !isReceipt(answer.headers, answer.body)) {
    checkStatus(answer)
    const deadlineSeconds = judgement.partnership.row.receipt_timeout_hours * HOUR_SECONDS
    // The facts were committed before the message was sent: a receipt may have come since, and changed them.
    return { outcome: { state: 'awaiting_ack', deadlineSeconds }, protocols: null, stage: null, line: null }
  }
  const sent = sentIn(judgement)
  const receipt = await genuineReceipt(judgement, sent)
  const counting = await withFurther(sent, receipt, judgement)
  return resultOf(receipt, { judgement, sent: counting, mode: asked.mode })
}

async function withFurther(sent: Sent, { mic }: Receipt, { mics, furtherMics }: Judgement): Promise<Sent> {
  // There are none of a message that the partner has not seen to its end.
  if (mic === null || mics.length === 0) return sent
  if (mics.some(({ algorithm }) => algorithm === mic.algorithm)) return sent
  return { ...sent, mics: [...sent.mics, ...(await furtherMics(mic.algorithm))] }
}

/** A partner that refuses the message in a receipt is heard, also where none was asked for; null where it does not. */
async function unaskedRefusal(judgement: Judgement): Promise<AttemptResult | null> {
  const { answer, partnership, now } = judgement
  if (!isReceipt(answer.headers, answer.body)) return null
  const sent = { ...sentIn(judgement), receiptSigned: false }
  try {
    const { headers, body } = answer
    const receipt = await readReceipt({ headers, body, signers: partnership.signers, mayBeUnsigned: true })
    if (isPositive(receipt.disposition)) return null
    if (notGenuine(receipt, sent, { partnership, now, isAnswer: true }) !== null) return null
    return resultOf(receipt, { judgement, sent, mode: 'Sync' })
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

function resultOf(
  receipt: Receipt,
  {
    judgement,
    sent,
    mode,
  }: { readonly judgement: Judgement; readonly sent: Sent; readonly mode: ReceiptFacts['mode'] },
): AttemptResult {
  const { answer, facts, partnership, now } = judgement
  const verdict = verdictOf(receipt, sent, { mode, partnership, now })
  return {
    outcome: verdict.failure === null ? { state: 'delivered' } : { state: 'failed', error: verdict.failure },
    protocols: { as2: { ...facts, receipt: verdict.facts } },
    stage: journaled('receipt', toReceiptStage(answer.headers, answer.body)),
    line: verdict.line,
  }
}

function sentIn({ facts, mics, partnership }: Judgement): Sent {
  return {
    messageId: facts.message_id,
    signed: facts.signed === true,
    receiptSigned: partnership.row.receipt_signed,
    mics: [...mics, ...earlierMics(facts)],
  }
}

/** The MICs of the attempts before, under the same Message-ID. */
export function earlierMics({ earlier_mics }: As2Facts): Mic[] {
  return (earlier_mics ?? []).map(
    ({ mic, mic_algorithm }) => ({ value: mic, algorithm: mic_algorithm }) as Mic,
  )
}

async function genuineReceipt({ answer, partnership, now }: Judgement, sent: Sent): Promise<Receipt> {
  const { headers, body } = answer
  let receipt: Receipt
  try {
    const { signers } = partnership
    receipt = await readReceipt({ headers, body, signers, mayBeUnsigned: !sent.receiptSigned })
  } catch (error) {
    const why = reason(error) + unproven(headers, body)
    const told = `The partner answered ${describe(answer)}, which is not the receipt: ${why}`
    const failure = failureOf(answer) ?? new Error(told, { cause: error })
    throw isReceipt(headers, body) ? forged(answer, why, failure) : failure
  }
  const refusal = notGenuine(receipt, sent, { partnership, now, isAnswer: true })
  if (refusal === null) return receipt
  const why = refusal + unproven(headers, body)
  throw forged(answer, why, new Error(why))
}

function forged({ headers, body }: Answer, why: string, failure: Error): ForgedReceipt {
  return new ForgedReceipt(why, { failure, stage: toReceiptStage(headers, body) })
}

/** That of the status; null where it says that the message was taken. */
function failureOf(answer: Answer): Error | null {
  try {
    checkStatus(answer)
    return null
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** The answer in the operator's words: the reasons of a refusal, not what it tells a partner. */
function reason(error: unknown): string {
  return error instanceof Refusal ? error.reason : reasonOf(error)
}

function describe({ status, headers, body, coding }: Answer): string {
  const [, contentType] = headers.find(([name]) => name.toLowerCase() === 'content-type') ?? []
  const content =
    body.length === 0
      ? 'nothing'
      : `${body.length} bytes of ${contentType?.slice(0, 100) ?? 'no content type'}`
  if (coding !== null)
    return `HTTP status ${status} with ${content} in the content coding ${coding}, which could not be undone`
  return `HTTP status ${status} with ${content}`
}
