import type { Pool } from 'pg'
import { crashPoint } from '../../../runtime/crash-point.ts'
import type { Log } from '../../../runtime/log.ts'
import { journaled } from '../../../storage/exchange/stages.ts'
import {
  noteForgery,
  sentMessage,
  takeReceipt,
  type SentMessage,
  type TakenReceipt,
} from '../../../storage/receipts/expected-receipts.ts'
import { partnershipByName } from '../../../storage/sql/partnership.ts'
import type { Keyring, Partnership } from '../profiles/partnership.ts'
import { HeaderFields } from '../../../runtime/mime/headers.ts'
import { isMessageId, parseAs2Name } from '../protocol/identifiers.ts'
import { claimedMessageId, readReceipt, type Receipt } from '../protocol/receipt.ts'
import type { BegunReceipt } from '../protocol/receipt-beginning.ts'
import { Refusal } from '../protocol/refusal.ts'
import { withoutBrackets, type HeldAgainst } from './expectation.ts'
import { toReceiptStage } from './stage.ts'
import { notGenuine, unproven, verdictOf } from './verdict.ts'

type Headers = ReadonlyArray<readonly [string, string]>

export interface ReceiptIntakeOptions {
  readonly pool: Pool
  readonly keyring: Keyring
  readonly log: Log
}

/** What whoever sent the receipt is answered, and the targets that have something to do. */
export interface ReceiptReply {
  readonly status: 200 | 400
  readonly text: string
  readonly targets: readonly string[]
}

/**
 * One answer for all that is refused: it tells nobody which messages there are, nor what a forgery lacks. With 400, and
 * not 200, the operator of a partner that signs with a wrong certificate sees that, too.
 */
const REFUSED: ReceiptReply = {
  status: 400,
  text: 'The receipt is for no message that was sent from here, or is not from whom that was sent to.',
  targets: [],
}

/** What makes a receipt somebody else's, in the words of the history. */
class Forgery extends Error {
  override readonly name = 'Forgery'
}

/**
 * Takes in a receipt that a partner sends by itself. It is held against what the message was sent with, and takes effect
 * in one transaction, before it is answered: so it may come at any receiver of any node, at any time, and once answered
 * is never lost. Only a receipt that is proven to be the partner's changes anything.
 */
export class ReceiptIntake {
  readonly #options: ReceiptIntakeOptions

  constructor(options: ReceiptIntakeOptions) {
    this.#options = options
  }

  async handle(headers: Headers, body: Buffer): Promise<ReceiptReply> {
    const { log } = this.#options
    const message = await this.#messageOf(claimedMessageId(headers, body))
    if (message === null) {
      log.info('a receipt for no message that was sent from here is refused')
      return REFUSED
    }
    try {
      const taken = await this.#take(message, headers, body)
      crashPoint('receipt-intake.taken')
      return { status: 200, text: '', targets: taken?.targets ?? [] }
    } catch (error) {
      if (!(error instanceof Forgery)) throw error
      await this.#note(message, error.message)
      return REFUSED
    }
  }

  /** Tells of a receipt that is too large to be read. */
  async refuseLarge(headers: Headers, { originalMessageId }: BegunReceipt, maxBytes: number): Promise<void> {
    const message = await this.#messageOf(originalMessageId)
    const reason = `it is larger than ${maxBytes} bytes`
    if (message !== null && isOfPair(headers, message.expectation as HeldAgainst))
      return this.#note(message, reason)
    this.#options.log.warn({ originalMessageId, reason }, 'a receipt for no message is refused')
  }

  /** The message that a receipt says it is for; null where none was sent so from here. */
  async #messageOf(claimed: string | null): Promise<SentMessage | null> {
    if (claimed === null || !isMessageId(claimed)) return null
    return sentMessage(this.#options.pool, withoutBrackets(claimed))
  }

  async #note(message: SentMessage, reason: string): Promise<void> {
    const { pool, log } = this.#options
    const line = `A receipt was refused and changes nothing: ${reason}`
    const isTold = await noteForgery(pool, message.id, line)
    log[isTold ? 'warn' : 'debug']({ message: message.id, reason }, 'a receipt is refused')
  }

  async #take(message: SentMessage, headers: Headers, body: Buffer): Promise<TakenReceipt | null> {
    const { pool, keyring, log } = this.#options
    const held = message.expectation as HeldAgainst
    if (!isOfPair(headers, held)) throw new Forgery('it is not between the parties of the message')
    const row = await partnershipByName(pool, message.from_party, message.to_party)
    if (row === null) throw new Forgery('the two parties do not both have an AS2 profile any more')
    const now = new Date()
    const partnership = keyring.open(row)
    const receipt = await genuine(partnership, held, { headers, body, now })
    const { facts, failure, line } = verdictOf(receipt, held, { mode: 'Async', partnership, now })
    const stage = journaled('receipt', toReceiptStage(headers, body))
    const judged = { messageId: message.id, module: 'as2', facts, failure, line, stage }
    const taken = await takeReceipt(pool, judged)
    const told = { message: message.id, effect: taken?.effect, failure }
    log[failure === null ? 'info' : 'warn'](told, 'asynchronous receipt')
    return taken
  }
}

/** The receipt travels the other way (RFC 4130 §6.2): it comes from whom the message went to. */
function isOfPair(headers: Headers, held: HeldAgainst): boolean {
  const fields = new HeaderFields(headers)
  const name = (header: string): string | null => parseAs2Name(fields.get(header) ?? '')
  return name('as2-from') === held.as2To && name('as2-to') === held.as2From
}

async function genuine(
  partnership: Partnership,
  held: HeldAgainst,
  { headers, body, now }: { readonly headers: Headers; readonly body: Buffer; readonly now: Date },
): Promise<Receipt> {
  let receipt: Receipt
  try {
    const { signers } = partnership
    receipt = await readReceipt({ headers, body, signers, mayBeUnsigned: !held.receiptSigned })
  } catch (error) {
    if (error instanceof Refusal) throw new Forgery(error.reason + unproven(headers, body), { cause: error })
    throw error
  }
  const refusal = notGenuine(receipt, held, { partnership, now, isAnswer: false })
  if (refusal !== null) throw new Forgery(refusal + unproven(headers, body))
  return receipt
}
