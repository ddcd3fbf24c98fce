import type { AttemptResult } from '../../../storage/exchange/consumer.ts'
import { JOURNAL_LIMIT_BYTES, journaled } from '../../../storage/exchange/stages.ts'
import type { As2Facts } from '../facts.ts'

/** An operator sees that somebody tries, or what a partner does wrong; the repeats of one message do not fill its history. */
const MAX_FORGERY_LINES = 5

/** The answer to a message is a receipt that is not the partner's own, or not one of this message. */
export class ForgedReceipt extends Error {
  override readonly name = 'ForgedReceipt'
  /** By which it is told whether the message is sent again. */
  readonly failure: Error
  /** The answer as it is stored. */
  readonly stage: Buffer

  constructor(reason: string, { failure, stage }: { readonly failure: Error; readonly stage: Buffer }) {
    super(reason, { cause: failure })
    this.failure = failure
    this.stage = stage
  }
}

export interface AttemptWithoutReceipt {
  readonly outcome: AttemptResult['outcome']
  readonly forged: ForgedReceipt | null
  /** With this one. */
  readonly attempts: number
  /** Whether the facts were committed before the message was sent: a receipt may have changed them since. */
  readonly isAsync: boolean
  readonly facts: As2Facts
}

/**
 * What is kept of an attempt that brought no receipt that counts. What was sent stays known: the partner may have it, and
 * answer the repeat with the receipt of this one. A forged receipt that came instead is kept, for whoever looks into it.
 * But where the message has a genuine receipt, of an attempt before or since, the settlement leaves all of that.
 */
export function attemptWithoutReceipt(attempt: AttemptWithoutReceipt): AttemptResult {
  const { outcome, forged, attempts, isAsync, facts } = attempt
  const isTold = forged !== null && (attempts <= MAX_FORGERY_LINES || outcome.state === 'failed')
  return {
    outcome,
    protocols: isAsync
      ? null
      : { as2: forged !== null && outcome.state === 'failed' ? refused(facts) : facts },
    stage: forged === null ? null : stageOf(forged),
    line: isTold
      ? { kind: 'mdn_refused', text: `A receipt was refused and changes nothing: ${forged.message}` }
      : null,
  }
}

function stageOf({ stage }: ForgedReceipt): AttemptResult['stage'] {
  return stage.length > JOURNAL_LIMIT_BYTES ? null : journaled('receipt', stage)
}

/** Nothing better came in all attempts. Where nothing at all came, the settlement says that it is overdue. */
function refused(facts: As2Facts): As2Facts {
  if (facts.receipt === null) return facts
  return { ...facts, receipt: { ...facts.receipt, state: 'refused', at: new Date().toISOString() } }
}
