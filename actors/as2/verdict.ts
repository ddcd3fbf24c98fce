import type { Partnership } from './partnership.ts'
import type { Envelope } from './protocol/envelope.ts'
import type { HeaderList } from './protocol/headers.ts'
import type { Mic } from './protocol/mic.ts'
import { readMessage, type Incoming } from './protocol/read.ts'
import { Refusal } from './protocol/refusal.ts'

/** What became of a received message before it is stored. */
export type Verdict =
  | { readonly kind: 'taken'; readonly incoming: Incoming }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

export interface Received {
  readonly envelope: Envelope
  readonly headers: HeaderList
  readonly body: Buffer
  readonly maxContentBytes: number
}

/** Opens a message under the profiles of its pair, and holds it against what they demand. Null: there are none. */
export async function judge(partnership: Partnership | null, received: Received): Promise<Verdict> {
  const { envelope, headers, body, maxContentBytes } = received
  try {
    if (partnership === null) {
      const reason = `No AS2 profiles for ${envelope.as2From} and ${envelope.as2To}`
      throw new Refusal('unknown-trading-relationship', reason)
    }
    refuseReceiptRequest(partnership, envelope)
    const { row, decryption, signers } = partnership
    const require = { signed: row.require_signed, encrypted: row.require_encrypted }
    const incoming = await readMessage({ headers, body, decryption, signers, maxContentBytes, require })
    return { kind: 'taken', incoming }
  } catch (error) {
    if (error instanceof Refusal) return { kind: 'refused', refusal: error }
    throw error
  }
}

/** A message whose receipt we could not give as it was asked for must not be taken: its sender would send it again. */
function refuseReceiptRequest({ row, signing }: Partnership, { receiptRequest }: Envelope): void {
  if (receiptRequest === null) return
  const { unsupported, asyncUrl, signed } = receiptRequest
  if (unsupported !== null)
    throw new Refusal(unsupported, 'The receipt cannot be made as the partner requires')
  if (signed && signing === null) {
    const reason = `Organization ${row.organization} has no certificate to sign the receipt with`
    throw new Refusal('unsupported format', reason)
  }
  if (asyncUrl !== null) {
    throw new Refusal('unexpected-processing-error', 'Asynchronous receipts cannot be sent by this version')
  }
}

/** The MIC for the receipt, where it is known and may be told. */
export function micOfVerdict(verdict: Verdict): Mic | null {
  return verdict.kind === 'taken' ? verdict.incoming.mic : verdict.refusal.mic
}
