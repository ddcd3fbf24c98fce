import type { Encryption } from './cms/encryption-keys.ts'
import type { Signing } from './cms/signature.ts'
import type { MicalgFormat } from './mic.ts'
import type { As2Version } from './version-headers.ts'

/** How the body of an entity travels. Some products read no other than base64. */
export type TransferEncoding = 'binary' | 'base64'

export type Compression = 'None' | 'BeforeSigning' | 'AfterSigning'

/** A message but for its content. */
export interface OutgoingFacts {
  readonly as2From: string
  readonly as2To: string
  /** As it travels, with its brackets. A repeat carries the same. */
  readonly messageId: string
  /** Any Unicode; null or empty for none. */
  readonly subject: string | null
  /** Also the time of signing. */
  readonly date: Date
  /** Any Unicode; null or empty for none. */
  readonly fileName: string | null
  readonly contentType: string
  readonly compression: Compression
  readonly signature: Signing | null
  readonly encryption: Encryption | null
  readonly receipt: { readonly signed: boolean; readonly asyncUrl: string | null } | null
  /** `name/version`, for the headers User-Agent and AS2-Product. */
  readonly product: string
  /** Default 1.3. */
  readonly as2Version?: As2Version
  /** Default `sha-256`. */
  readonly micalgFormat?: MicalgFormat
  /** Of the content and of each S/MIME body; default binary. */
  readonly transferEncoding?: TransferEncoding
}
