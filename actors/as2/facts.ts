/** What the AS2 module keeps with a message, under `protocols.as2`, and what the API shows of it as it stands. */
export interface As2Facts {
  /** As on the wire, with its angle brackets. */
  readonly message_id: string
  readonly as2_from: string
  readonly as2_to: string
  readonly subject: string | null
  /** Null where a refused message was not opened so far. */
  readonly signed: boolean | null
  readonly encrypted: boolean | null
  readonly compressed: boolean | null
  /** Of a signed message that was received: SHA-256 of the signer's certificate, as certificates have it. */
  readonly signer_fingerprint_sha256?: string
  /** The algorithms used, by their table names. */
  readonly algorithms: As2Algorithms
  /** Of a message with several files the first hundred, the root first; null for one file. */
  readonly attachments: readonly AttachmentFacts[] | null
  /** How many files there are; null for one file that is no attachment. */
  readonly attachment_count: number | null
  /** Base64. */
  readonly mic: string | null
  readonly mic_algorithm: string | null
  /** Of attempts before the last one, where their MIC was another. */
  readonly earlier_mics?: readonly SentMic[]
  readonly receipt: ReceiptFacts | null
}

export interface AttachmentFacts {
  readonly file_name: string
  readonly content_type: string
  /** Of the content, without transfer encoding. */
  readonly size_bytes: number
}

export interface SentMic {
  readonly mic: string
  readonly mic_algorithm: string
}

export interface As2Algorithms {
  readonly signature: string | null
  readonly encryption: string | null
  readonly compression: string | null
}

export interface ReceiptFacts {
  readonly mode: 'Sync' | 'Async'
  readonly signed: boolean
  readonly state: 'pending' | 'received' | 'sent' | 'refused' | 'overdue'
  readonly disposition: string | null
  readonly mic: string | null
  readonly mic_matches: boolean | null
  readonly message_id: string | null
  /** RFC 3339; null while it is pending. */
  readonly at: string | null
}

/** The module's entry among the facts of a message. */
export function as2Facts(protocols: Readonly<Record<string, unknown>>): As2Facts | null {
  return (protocols['as2'] as As2Facts | undefined) ?? null
}
