/** What an AS2 message is opened under, and what is found in it. */
import type { Attachment } from '../../../runtime/mime/attachment-list.ts'
import type { HeaderFields, HeaderList } from '../../../runtime/mime/headers.ts'
import type { CipherName, KeyManagement, SignatureScheme, SigningDigest } from './algorithms.ts'
import type { DecryptionKey } from './cms/encryption-keys.ts'
import type { Signer, Verification } from './cms/verification.ts'
import type { Envelope } from './envelope.ts'
import type { Mic } from './mic.ts'
import type { Compression } from './outgoing.ts'

/** Under what a message is opened. */
export interface Reception {
  readonly headers: HeaderList
  readonly decryption: readonly DecryptionKey[]
  /** The certificates that the sender may sign with, DER; no others count. */
  readonly signers: readonly Buffer[]
  readonly maxContentBytes: number
  /** What the sender must have done; default nothing. */
  readonly require?: { readonly signed: boolean; readonly encrypted: boolean }
}

export interface ReceivedMessage extends Reception {
  readonly body: Buffer
}

/** What an opened message says of itself and of its content. */
export interface IncomingFacts extends Envelope {
  /** Of the content. */
  readonly sizeBytes: number
  readonly contentType: string
  /**
   * As the sender wrote it: never a path to use unchecked. That of the content itself, else of the HTTP headers; of several
   * files that of the first that has one.
   */
  readonly fileName: string | null
  /** Of a message with several files (RFC 6362), the root first: `content` is the multipart body; null: one file. */
  readonly attachments: readonly Attachment[] | null
  readonly signed: boolean
  readonly encrypted: boolean
  readonly compressed: boolean
  readonly algorithms: Algorithms
  /** Null when the message is not signed. */
  readonly signer: Signer | null
  /** For the receipt. */
  readonly mic: Mic
}

export interface Incoming extends IncomingFacts {
  readonly content: Buffer
}

/** Null for what the message does not have. */
export interface Algorithms {
  readonly signature: SigningDigest | null
  readonly signatureScheme: SignatureScheme | null
  readonly encryption: CipherName | null
  readonly keyTransport: KeyManagement | null
  readonly compression: Exclude<Compression, 'None'> | null
}

/** The innermost entity of a message. */
export interface OpenedContent {
  readonly headers: HeaderFields
  readonly sizeBytes: number
  readonly attachments: readonly Attachment[] | null
  /** Over the entity as received; not asked for where a signature has one. */
  readonly mic: () => Mic
}

/** What is known of a message while its layers come off. */
export interface Progress {
  encryption: { algorithm: CipherName; keyTransport: KeyManagement } | null
  compression: Algorithms['compression']
  verification: Verification | null
}
