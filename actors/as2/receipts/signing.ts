import type { KeyPair, Partnership } from '../profiles/partnership.ts'
import { isSigningDigest, type SigningDigest } from '../protocol/algorithms.ts'
import type { Signing } from '../protocol/cms/signature.ts'
import type { ReceiptRequest } from '../protocol/envelope.ts'
import type { Verdict } from '../receiving/verdict.ts'

export interface Signer {
  readonly partnership: Partnership | null
  /** Our own, of who signs to somebody who is no partner. */
  readonly ownSigning: KeyPair | null
  readonly verdict: Verdict
}

/** What a receipt is signed with; null when it need not be signed, or we have nothing to sign it with. */
export function receiptSigning(
  { signed, micAlgorithms }: ReceiptRequest,
  { partnership, ownSigning, verdict }: Signer,
): Signing | null {
  const signing = partnership?.signing ?? ownSigning
  if (!signed || signing === null) return null
  const ofMessage = verdict.kind === 'taken' ? verdict.incoming.algorithms.signature : null
  const asked = ofMessage ?? micAlgorithms.find(isSigningDigest) ?? 'SHA256'
  if (partnership === null)
    return { algorithm: asked === 'SHA1' ? 'SHA256' : asked, scheme: 'PKCS1', ...signing }
  const { row } = partnership
  return { algorithm: digestFor(row, asked), scheme: row.signature_scheme, ...signing }
}

/**
 * What the message is signed with is surely known to the partner. But nothing weak is made unless the profile says so,
 * for receipts or for messages.
 */
function digestFor(
  { receipt_signing_algorithm: chosen, signing_algorithm }: Partnership['row'],
  asked: SigningDigest,
): SigningDigest {
  if (chosen !== 'Auto') return chosen
  return asked === 'SHA1' && signing_algorithm !== 'SHA1' ? 'SHA256' : asked
}
