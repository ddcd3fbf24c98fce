import type { ClaimedDelivery } from '../../../storage/sql/claim.ts'
import { as2Facts, type As2Facts, type SentMic } from '../facts.ts'
import type { Partnership } from '../profiles/partnership.ts'
import type { OutgoingFacts } from '../protocol/outgoing.ts'
import type { Mic } from '../protocol/mic.ts'
import type { SentAttachments } from './sent-attachments.ts'

/** More profile changes between the attempts of one message than anybody makes. */
const MAX_EARLIER_MICS = 10

/** The MICs of earlier attempts that differ from this one's: a profile may have changed between them. */
function micsSentBefore({ protocols }: ClaimedDelivery, mic: Mic | null): SentMic[] {
  const { mic: last = null, mic_algorithm, earlier_mics = [] } = as2Facts(protocols) ?? {}
  const all =
    last === null || mic_algorithm == null ? earlier_mics : [...earlier_mics, { mic: last, mic_algorithm }]
  return all.filter((each) => each.mic !== mic?.value).slice(-MAX_EARLIER_MICS)
}

export interface Sent {
  readonly delivery: ClaimedDelivery
  readonly partnership: Partnership
  readonly outgoing: OutgoingFacts
  readonly attachments: SentAttachments
  /** Null where the attempt failed before it was known. */
  readonly mic: Mic | null
}

/** What is kept of an attempt to send a message, before its receipt is there. */
export function factsOf({ delivery, partnership, outgoing, attachments, mic }: Sent): As2Facts {
  const { row } = partnership
  const earlier = micsSentBefore(delivery, mic)
  return {
    message_id: outgoing.messageId,
    as2_from: row.local_as2id,
    as2_to: row.remote_as2id,
    subject: outgoing.subject === '' ? null : outgoing.subject,
    signed: row.signing_algorithm !== 'None',
    encrypted: row.encryption_algorithm !== 'None',
    compressed: row.compression !== 'None',
    algorithms: {
      signature: named(row.signing_algorithm),
      encryption: named(row.encryption_algorithm),
      compression: named(row.compression),
    },
    ...attachments,
    mic: mic?.value ?? null,
    mic_algorithm: mic?.algorithm ?? null,
    ...(earlier.length === 0 ? {} : { earlier_mics: earlier }),
    receipt:
      row.receipt_mode === 'None'
        ? null
        : {
            mode: row.receipt_mode,
            signed: row.receipt_signed,
            state: 'pending',
            disposition: null,
            mic: null,
            mic_matches: null,
            message_id: null,
            at: null,
          },
  }
}

/** A profile's `None` is null in the facts. */
function named(name: string): string | null {
  return name === 'None' ? null : name
}
