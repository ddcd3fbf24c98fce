import type { NewStage } from '../exchange/stages.ts'
import type { HistoryKind } from '../exchange/states.ts'
import { query, type Queryable } from '../postgres/pool.ts'

/** Receipts of partners that come by themselves; what they do is a function of the database, see migration 012. */

/** What a claimed delivery is sent as, committed before it is. */
export interface Expectation {
  readonly messageId: string
  readonly deliveryId: number
  /** The number that the claim gave. */
  readonly fencing: number
  /** How the receipt names the message: the id that it travels under, without brackets. */
  readonly sentAs: string
  /** What the protocol needs to judge the receipt. */
  readonly heldAgainst: object
  /** New facts for the message, by module name. */
  readonly protocols: Readonly<Record<string, unknown>>
}

/** `answered`: the receipt of an attempt before has come, and the settlement follows it. `lost`: the claim is. */
export type Expected = 'awaited' | 'answered' | 'lost'

export async function expectReceipt(on: Queryable, expectation: Expectation): Promise<Expected> {
  const { messageId, deliveryId, fencing, sentAs, heldAgainst, protocols } = expectation
  const [row] = await query<{ expected: Expected }>(
    on,
    'select expect_receipt($1, $2, $3, $4, $5, $6) as expected',
    [messageId, deliveryId, fencing, sentAs, heldAgainst, protocols],
    'expect-receipt',
  )
  return row?.expected ?? 'lost'
}

/** A message whose receipt may come. */
export interface SentMessage {
  readonly id: string
  readonly from_party: string
  readonly to_party: string
  readonly protocols: Readonly<Record<string, unknown>>
  /** As it was given to `expectReceipt`. */
  readonly expectation: unknown
}

/** The message that travelled under an id, which is given without brackets; null for none. */
export async function sentMessage(on: Queryable, sentAs: string): Promise<SentMessage | null> {
  const [row] = await query<SentMessage>(
    on,
    `select m.id, m.from_party, m.to_party, m.protocols, e.expectation
     from expected_receipt e join message m on m.id = e.message_id
     where e.sent_as = $1 order by m.id desc limit 1`,
    [sentAs],
    'sent-message',
  )
  return row ?? null
}

/** A genuine receipt, judged. */
export interface JudgedReceipt {
  readonly messageId: string
  /** Whose facts of the message hold `receipt`. */
  readonly module: string
  /** What the module keeps of the receipt. */
  readonly facts: object
  /** Why it makes deliveries fail; null for a positive one. */
  readonly failure: string | null
  readonly line: { readonly kind: HistoryKind; readonly text: string }
  /** As it travelled, small enough for the journal; null to keep what is stored. */
  readonly stage: NewStage | null
}

export interface TakenReceipt {
  /**
   * `late`: nothing waited for it any more, and none had come since the message was sent. `repeated`: one had, and nothing
   * was changed.
   */
  readonly effect: 'counted' | 'late' | 'repeated'
  /** Whose next attempt has only to find it. */
  readonly targets: readonly string[]
}

/** Lines about receipts that come once more; what comes after them is not told. */
const MAX_REPEAT_LINES = 10

/** Lets a receipt take effect, in one transaction; null for an unknown message. */
export async function takeReceipt(on: Queryable, receipt: JudgedReceipt): Promise<TakenReceipt | null> {
  const { messageId, module, facts, failure, line, stage } = receipt
  const recorded = stage === null ? null : { size_bytes: stage.size_bytes, sha256: stage.sha256 }
  const [row] = await query<TakenReceipt>(
    on,
    'select effect, targets from take_receipt($1, $2, $3, $4, $5, $6, $7, $8, $9)',
    [
      messageId,
      module,
      facts,
      failure,
      line.kind,
      line.text,
      recorded,
      stage?.bytes ?? null,
      MAX_REPEAT_LINES,
    ],
    'take-receipt',
  )
  return row ?? null
}

/** An operator sees that somebody tries; nobody fills a history by trying. */
const MAX_FORGERY_LINES = 5

/** Notes a receipt that names a message and is not its receipt. It changes nothing. False: enough of them are told. */
export async function noteForgery(on: Queryable, messageId: string, text: string): Promise<boolean> {
  const rows = await query<object>(
    on,
    `with noted as (
       update expected_receipt set forgeries = forgeries + 1 where message_id = $1 and forgeries < $2 returning message_id)
     insert into history (message_id, kind, text) select message_id, 'mdn_refused', $3 from noted returning id`,
    [messageId, MAX_FORGERY_LINES, text],
    'note-forgery',
  )
  return rows.length > 0
}
