import { query, type Queryable } from '../postgres/pool.ts'

/** Receipts that partners want to be sent by themselves; see migration 012. */

/** An order to send the stored receipt of a message, ours until its time is over. */
export interface ClaimedReceipt {
  readonly id: number
  readonly fencing: number
  /** 1 for the first. */
  readonly attempts: number
  readonly message_id: string
  readonly from_party: string
  readonly to_party: string
  readonly url: string
}

export interface ReceiptClaim {
  /** The instance that took the messages in. */
  readonly receiver: string
  /** At most so many. */
  readonly limit: number
  readonly owner: string
  /** After that another one may take it: longer than sending takes. */
  readonly leaseSeconds: number
}

/** Claims what is due, that which waits longest first. What somebody else is claiming is skipped. */
export function claimReceipts(on: Queryable, claim: ReceiptClaim): Promise<ClaimedReceipt[]> {
  const { receiver, limit, owner, leaseSeconds } = claim
  return query<ClaimedReceipt>(on, CLAIM, [receiver, limit, owner, leaseSeconds], 'claim-receipts')
}

const CLAIM = `
with due as materialized (
  select r.id from receipt_dispatch r
  where r.receiver = $1 and r.next_attempt_at <= (select exchange_time()) and r.expires_at > (select exchange_time())
  order by r.next_attempt_at limit $2
  for no key update skip locked
), claimed as (
  update receipt_dispatch r set attempts = attempts + 1, fencing = fencing + 1, lease_owner = $3,
    next_attempt_at = (select exchange_time()) + make_interval(secs => $4)
  from due where r.id = due.id
  returning r.id, r.fencing, r.attempts, r.message_id, r.url
)
select c.id, c.fencing, c.attempts, c.message_id, m.from_party, m.to_party, c.url
from claimed c join message m on m.id = c.message_id order by c.id`

/** How sending ended. `line` is told of a receipt that was taken, and of the first time that it was not. */
export interface ReceiptSettlement {
  readonly id: number
  readonly fencing: number
  /** Why the partner did not take it, and after how long it is tried again; null when it did. */
  readonly failure: { readonly error: string; readonly waitSeconds: number } | null
  readonly line: string
}

/** False, and nothing is changed, when the claim was lost. */
export async function settleReceipt(on: Queryable, settlement: ReceiptSettlement): Promise<boolean> {
  const { id, fencing, failure, line } = settlement
  const [row] = await query<{ settled: boolean }>(
    on,
    'select settle_receipt($1, $2, $3, $4, $5) as settled',
    [id, fencing, failure?.error ?? null, failure?.waitSeconds ?? null, line],
    'settle-receipt',
  )
  return row?.settled ?? false
}

/** Gives back the claims of owners that are gone for certain: whose names begin so. Answers how many. */
export async function releaseReceipts(on: Queryable, ownerPrefix: string): Promise<number> {
  const [row] = await query<{ released: number }>(on, 'select release_receipts($1) as released', [
    ownerPrefix,
  ])
  return row?.released ?? 0
}

/** Takes over what receivers owe that do not exist, or are not enabled, any more; answers how many. */
export async function adoptReceipts(on: Queryable, receiver: string): Promise<number> {
  const text = 'select adopt_receipts($1) as adopted'
  const [row] = await query<{ adopted: number }>(on, text, [receiver], 'adopt-receipts')
  return row?.adopted ?? 0
}

/** Receipts that one look ends at most. */
const EXPIRY_BATCH = 100

/** Ends what nobody has taken in time, whichever receiver it is of; answers how many. */
export async function expireReceipts(on: Queryable): Promise<number> {
  const text = 'select expire_receipts($1) as expired'
  const [row] = await query<{ expired: number }>(on, text, [EXPIRY_BATCH], 'expire-receipts')
  return row?.expired ?? 0
}

/**
 * How long a receipt is sent again. How long the partner waits for it, only the partner knows; this is longer than a
 * weekend without anybody there to mend a server.
 */
export const RECEIPT_LASTS_SECONDS = 72 * 3600

/** Places that one receipt is on its way to at the same time. */
const MAX_PLACES = 3
/** The greatest integer of the database. */
const ANY_NUMBER = 2_147_483_647

/**
 * Orders the stored receipt of a message to be sent once more. False: it is on its way to too many places, and this is
 * not the one where it was wanted first.
 */
export async function sendReceiptAgain(
  on: Queryable,
  again: {
    readonly messageId: string
    readonly receiver: string
    readonly url: string
    readonly isFirstPlace: boolean
  },
): Promise<boolean> {
  const [row] = await query<{ ordered: boolean }>(
    on,
    'select send_receipt_again($1, $2, $3, $4, $5) as ordered',
    [
      again.messageId,
      again.receiver,
      again.url,
      RECEIPT_LASTS_SECONDS,
      again.isFirstPlace ? ANY_NUMBER : MAX_PLACES,
    ],
    'send-receipt-again',
  )
  return row?.ordered ?? false
}
