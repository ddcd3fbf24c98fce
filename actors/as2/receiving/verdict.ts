import { checkSigner } from '../profiles/certificate-validity.ts'
import type { Partnership } from '../profiles/partnership.ts'
import type { Envelope } from '../protocol/envelope.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import type { Mic } from '../protocol/mic.ts'
import { isReceiptType } from '../protocol/receipt.ts'
import type { IncomingFacts, Reception } from '../protocol/incoming.ts'
import { Refusal } from '../protocol/refusal.ts'

/** What became of a received message before it is stored. */
export type Verdict =
  | {
      readonly kind: 'taken'
      readonly incoming: IncomingFacts
      /** What the history tells of it, beside that it was taken. */
      readonly note?: string | null
    }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

/**
 * Opens a message, in memory or as it comes. `judge` is told what was found before it counts; what it throws refuses the
 * message.
 */
export type OpenMessage = (
  reception: Reception,
  judge: (incoming: IncomingFacts) => void,
) => Promise<IncomingFacts>

export interface Received {
  readonly envelope: Envelope
  readonly headers: HeaderList
  readonly open: OpenMessage
  readonly maxContentBytes: number
  /** Why the receipt cannot go where the sender wants it; null when it can. */
  readonly receiptRefusal: string | null
}

/** Opens a message under the profiles of its pair, and holds it against what they demand. Null: there are none. */
export async function judge(partnership: Partnership | null, received: Received): Promise<Verdict> {
  const { envelope, headers, open, maxContentBytes } = received
  try {
    if (envelope.as2From === envelope.as2To) {
      throw new Refusal('sender-equals-receiver', `Both AS2-From and AS2-To are ${envelope.as2From}`)
    }
    if (envelope.hasInvalidId) {
      const reason = 'The Message-ID has more than 998 characters, or others than printable ASCII'
      throw new Refusal('invalid-message-id', reason)
    }
    if (partnership === null) {
      const reason = `No AS2 profiles for ${envelope.as2From} and ${envelope.as2To}`
      throw new Refusal('unknown-trading-relationship', reason)
    }
    refuseReceiptRequest(partnership, envelope, received.receiptRefusal)
    const { row, decryption, signers } = partnership
    const require = { signed: row.require_signed, encrypted: row.require_encrypted }
    let note: string | null = null
    const reception = { headers, decryption, signers, maxContentBytes, require }
    const incoming = await open(reception, (facts) => {
      refuseWrappedReceipt(facts)
      note = checkSigner(partnership, facts, new Date())
    })
    return { kind: 'taken', incoming, note }
  } catch (error) {
    if (error instanceof Refusal) return { kind: 'refused', refusal: error }
    throw error
  }
}

/** A message whose receipt we could not give as it was asked for must not be taken: its sender would send it again. */
function refuseReceiptRequest(
  { row, signing }: Partnership,
  { receiptRequest }: Envelope,
  receiptRefusal: string | null,
): void {
  if (receiptRequest === null) return
  const { unsupported, signed } = receiptRequest
  if (unsupported !== null)
    throw new Refusal(unsupported, 'The receipt cannot be made as the partner requires')
  if (signed && signing === null) {
    const reason = `Organization ${row.organization} has no certificate to sign the receipt with`
    throw new Refusal('unsupported format', reason)
  }
  if (receiptRefusal !== null) throw new Refusal('unexpected-processing-error', receiptRefusal)
}

/**
 * Receipts travel in clear (RFC 4130 §7.4.2), and are told from messages by that. One that was encrypted or compressed is
 * no business document: an operator sees it, and it is delivered to nobody.
 */
function refuseWrappedReceipt({ contentType }: IncomingFacts): void {
  if (!isReceiptType(contentType)) return
  throw new Refusal(
    'unexpected-processing-error',
    'It is a receipt, which must be neither encrypted nor compressed',
  )
}

/** The MIC for the receipt, where it is known and may be told. */
export function micOfVerdict(verdict: Verdict): Mic | null {
  return verdict.kind === 'taken' ? verdict.incoming.mic : verdict.refusal.mic
}
