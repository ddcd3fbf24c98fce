/** EnvelopedData (RFC 5652 §6) and AuthEnvelopedData (RFC 5083). */
import { randomBytes } from 'node:crypto'
import { CIPHERS } from '../algorithms.ts'
import type { CipherName, KeyTransport } from '../algorithms.ts'
import type { BerElement, BerReader } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import { integer, octetString, sequence, setOf } from '../asn1/writer.ts'
import { Refusal } from '../refusal.ts'
import { openContent, readSealedContent, sealContent } from './content-encryption.ts'
import type { Authentication } from './content-encryption.ts'
import { formatContentInfo } from './content-info.ts'
import { CONTENT_TYPE } from './oids.ts'
import { findRecipient, formatRecipient, unwrapContentKey } from './recipient.ts'
import type { DecryptionKey } from './recipient.ts'

export interface Encryption {
  readonly algorithm: CipherName
  readonly keyTransport: KeyTransport
  /** The recipient's, DER. */
  readonly certificate: Buffer
}

export interface OpenedEnvelope {
  readonly content: Buffer
  readonly algorithm: CipherName
  readonly keyTransport: KeyTransport
}

export type EnvelopeType = 'envelopedData' | 'authEnvelopedData'

/** The ContentInfo of the encrypted bytes: AuthEnvelopedData for GCM, EnvelopedData for CBC. */
export function formatEnvelopedData(
  bytes: Buffer,
  encryption: Encryption,
): { contentType: EnvelopeType; bytes: Buffer } {
  const { algorithm, certificate, keyTransport } = encryption
  const { keyBytes, ivBytes } = CIPHERS[algorithm]
  const key = randomBytes(keyBytes)
  const recipients = setOf(formatRecipient(key, certificate, keyTransport))
  const { info, mac } = sealContent(algorithm, { key, iv: randomBytes(ivBytes) }, bytes)
  const fields = [integer(0), recipients, info]
  if (mac !== null) fields.push(octetString(mac))
  const contentType = mac === null ? 'envelopedData' : 'authEnvelopedData'
  return { contentType, bytes: formatContentInfo(CONTENT_TYPE[contentType], sequence(...fields)) }
}

/**
 * Decrypts with the key that the message names by issuer and serial number or by subject key identifier.
 * @throws Refusal `decryption-failed`, always with the same text once a recipient is matched; Asn1Error
 */
export function openEnvelopedData(
  contentType: EnvelopeType,
  content: BerElement,
  keys: readonly DecryptionKey[],
): OpenedEnvelope {
  const fields = content.children()
  fields.next(TAG.INTEGER)
  fields.optional(contextTag(0, 'constructed'))
  const recipient = findRecipient(fields.next(TAG.SET), keys)
  const sealed = readSealedContent(fields.next(TAG.SEQUENCE))
  const authentication = contentType === 'authEnvelopedData' ? readAuthentication(fields) : null
  const { keyBytes } = CIPHERS[sealed.algorithm]
  const unwrapped = unwrapContentKey(recipient)
  // An unusable key is replaced by a random one, so that its failure looks like any other (RFC 3218 §2.3).
  const usable = unwrapped?.length === keyBytes
  const key = usable ? unwrapped : randomBytes(keyBytes)
  const plain = openContent(sealed, key, authentication)
  if (!usable || plain === null) {
    throw new Refusal('decryption-failed', 'the message could not be decrypted with the key of its recipient')
  }
  return { content: plain, algorithm: sealed.algorithm, keyTransport: recipient.transport.name }
}

function readAuthentication(fields: BerReader): Authentication {
  const attributes = fields.optional(contextTag(1, 'constructed'))
  const mac = fields.next(TAG.OCTET_STRING).octets()
  // The attributes are authenticated under the tag of SET OF (RFC 5083 §2.2).
  return {
    mac,
    attributes:
      attributes === null ? null : Buffer.concat([Buffer.from([TAG.SET]), attributes.raw.subarray(1)]),
  }
}
