import { hash } from 'node:crypto'
import type { As2Facts, ReceiptFacts } from './facts.ts'
import { dispositionFor, type MadeReceipt } from './made-receipt.ts'
import { formatDisposition } from './protocol/disposition.ts'
import type { Envelope } from './protocol/envelope.ts'
import { micOfVerdict, type Verdict } from './verdict.ts'

/** RFC 4130 §7.6 leaves repeats to the parties; the names and the id together make a message the same. */
export function duplicateKeyOf({ as2From, as2To, messageId }: Envelope): Buffer | null {
  if (messageId === null) return null
  return hash('sha256', JSON.stringify([as2From, as2To, messageId.replace(/^<(.*)>$/, '$1')]), 'buffer')
}

/** Records hold text that can be shown: no control characters, and not more than a name can be. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '_').slice(0, 255)
}

/** What is kept with a received message under `protocols.as2`. */
export function factsOf(envelope: Envelope, verdict: Verdict, receipt: MadeReceipt | null): As2Facts {
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
    algorithms: {
      signature: incoming?.algorithms.signature ?? null,
      encryption: incoming?.algorithms.encryption ?? null,
      compression: incoming?.algorithms.compression ?? null,
    },
    mic: mic?.value ?? null,
    mic_algorithm: mic?.algorithm ?? null,
    receipt: receipt === null ? null : receiptFactsOf(verdict, receipt),
  }
}

function receiptFactsOf(verdict: Verdict, { messageId, signed, at }: MadeReceipt): ReceiptFacts {
  return {
    mode: 'Sync',
    signed,
    state: 'sent',
    disposition: formatDisposition(dispositionFor(verdict)),
    mic: micOfVerdict(verdict)?.value ?? null,
    mic_matches: null,
    message_id: messageId,
    at: at.toISOString(),
  }
}
