/** Whom a message is encrypted to, and who may open it. */
import type { KeyObject } from 'node:crypto'
import type { CipherName, KeyTransport, OaepDigest } from '../algorithms.ts'

/** How a message is encrypted, and to whom. */
export interface Encryption {
  readonly algorithm: CipherName
  /** For an RSA certificate. An EC certificate goes by key agreement, whatever stands here. */
  readonly keyTransport: KeyTransport
  /** Of OAEP; default SHA-256. */
  readonly oaepDigest?: OaepDigest
  /** The recipient's, DER. */
  readonly certificate: Buffer
}

/** A key that may open messages, with its certificate in DER. */
export interface DecryptionKey {
  readonly certificate: Buffer
  readonly privateKey: KeyObject
}
