import type { Pool } from 'pg'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { sendReceiptAgain } from '../../../storage/receipts/receipt-dispatches.ts'
import { partnershipByAs2Id, type PartnershipRow } from '../../../storage/sql/partnership.ts'
import type { Envelope } from '../protocol/envelope.ts'
import { isHopeless, receiptPlace, type AllowedPlaces } from './place.ts'

/** How the receipt of a message gets to its sender. */
export interface ReceiptWay {
  /** Where it is sent by itself; null where the answer to the message holds it, or there is none. */
  readonly asyncUrl: string | null
  /** Why it cannot go where the sender wants it, in words for an operator; null when it can. */
  readonly refusal: string | null
}

const WITH_THE_ANSWER: ReceiptWay = { asyncUrl: null, refusal: null }

/**
 * The way that a message asks for. To who is no partner nothing is sent but an answer: its message would else make us
 * call whom it likes.
 */
export function receiptWay(
  { receiptRequest }: Envelope,
  { row, allowed }: { readonly row: PartnershipRow | null; readonly allowed: AllowedPlaces },
): ReceiptWay {
  const wanted = receiptRequest?.asyncUrl ?? null
  if (wanted === null || row === null) return WITH_THE_ANSWER
  const place = receiptPlace(wanted, { endpoint: row.endpoint, allowed })
  if (place === null) {
    return { asyncUrl: null, refusal: 'The receipt is wanted at what is no http or https URL' }
  }
  if (isHopeless(place)) {
    const refusal = `The receipt is wanted at ${place.url.host}, where the settings of the receiver let none go`
    return { asyncUrl: null, refusal }
  }
  return { asyncUrl: place.url.href, refusal: null }
}

export interface Again {
  readonly messageId: string
  readonly receiver: string
  readonly allowed: AllowedPlaces
  /** The headers that the message first came with. */
  readonly first: Envelope
  /** Whether it may go to another place than then: the repeat is of the partner. */
  readonly elsewhere: boolean
}

/**
 * A message that came before is asked about again: its stored receipt is sent once more, to where this request wants it.
 * False where it cannot go there, or is on its way to too many places already; the place of the first request is none of
 * those, so that nobody else's repeats take it away.
 */
export async function sendAgain(pool: Pool, envelope: Envelope, again: Again): Promise<boolean> {
  const { messageId, receiver, allowed, first, elsewhere } = again
  const row = await partnershipByAs2Id(pool, envelope.as2From, envelope.as2To)
  const { asyncUrl } = receiptWay(envelope, { row, allowed })
  if (asyncUrl === null) return false
  const isFirstPlace = receiptWay(first, { row, allowed }).asyncUrl === asyncUrl
  if (!isFirstPlace && !elsewhere) return false
  const isOrdered = await sendReceiptAgain(pool, { messageId, receiver, url: asyncUrl, isFirstPlace })
  crashPoint('receipt-dispatch.ordered-again')
  return isOrdered
}
