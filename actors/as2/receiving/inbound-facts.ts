import { hash } from 'node:crypto'
import { attachmentFacts } from '../attachment-facts.ts'
import type { As2Facts, ReceiptFacts } from '../facts.ts'
import { dispositionFor, type MadeReceipt } from '../receipts/made-receipt.ts'
import { formatDisposition } from '../protocol/disposition.ts'
import type { Envelope } from '../protocol/envelope.ts'
import { micOfVerdict, type Verdict } from './verdict.ts'

/** RFC 4130 §7.6 leaves repeats to the parties; the names and the id together make a message the same. */
export function duplicateKeyOf({ as2From, as2To, messageId }: Envelope): Buffer | null {
  if (messageId === null) return null
  return hash('sha256', JSON.stringify([as2From, as2To, messageId.replace(/^<(.*)>$/, '$1')]), 'buffer')
}

/** What is kept with a received message under `protocols.as2`. */
export function factsOf(
  envelope: Envelope,
  verdict: Verdict,
  receipt: MadeReceipt | null,
  messageId: string,
): As2Facts {
  const incoming = verdict.kind === 'taken' ? verdict.incoming : null
  const mic = micOfVerdict(verdict)
  return {
    message_id: envelope.messageId ?? '',
    as2_from: envelope.as2From,
    as2_to: envelope.as2To,
    subject: envelope.subject,
    signed: incoming?.signed ?? null,
    encrypted: incoming?.encrypted ?? null,
    compressed: incoming?.compressed ?? null,
    ...(incoming?.signer == null
      ? {}
      : { signer_fingerprint_sha256: hash('sha256', incoming.signer.certificate, 'hex') }),
    algorithms: {
      signature: incoming?.algorithms.signature ?? null,
      encryption: incoming?.algorithms.encryption ?? null,
      compression: incoming?.algorithms.compression ?? null,
    },
    ...attachmentFacts(incoming?.attachments ?? null, messageId),
    mic: mic?.value ?? null,
    mic_algorithm: mic?.algorithm ?? null,
    receipt: receipt === null ? null : receiptFactsOf(verdict, receipt),
  }
}

/** What is kept of a receipt that was made. */
export function receiptFactsOf(
  verdict: Verdict,
  { messageId, signed, at, asyncUrl }: MadeReceipt,
): ReceiptFacts {
  return {
    mode: asyncUrl === null ? 'Sync' : 'Async',
    signed,
    state: asyncUrl === null ? 'sent' : 'pending',
    disposition: formatDisposition(dispositionFor(verdict)),
    mic: micOfVerdict(verdict)?.value ?? null,
    mic_matches: null,
    message_id: messageId,
    at: asyncUrl === null ? at.toISOString() : null,
  }
}
