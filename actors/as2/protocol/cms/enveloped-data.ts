/** EnvelopedData (RFC 5652 §6) and AuthEnvelopedData (RFC 5083). */
import { randomBytes } from 'node:crypto'
import type { Cipheriv } from 'node:crypto'
import { CIPHERS } from '../algorithms.ts'
import type { CipherName, KeyManagement } from '../algorithms.ts'
import type { BerElement, BerReader } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import type { Wrapping } from '../asn1/wrapping.ts'
import { element, integer, objectIdentifier, octetString, setOf, toBuffer } from '../asn1/writer.ts'
import { MAKING } from '../making.ts'
import type { Making, Randomness } from '../making.ts'
import { Refusal } from '../refusal.ts'
import { isTextOctet } from '../text.ts'
import { openContent, openStart, readSealedContent, startSealing } from './content-encryption.ts'
import type { Authentication, ContentAlgorithm } from './content-encryption.ts'
import { contentInfoLevels } from './content-info.ts'
import type { DecryptionKey, Encryption } from './encryption-keys.ts'
import { wrapOctets } from './octets.ts'
import { CONTENT_TYPE } from './oids.ts'
import { envelopeVersion, findRecipients, formatRecipient, unwrapContentKey } from './recipient.ts'
import type { Recipient } from './recipient.ts'
import type { RsaDecryption } from './rsa-decryption.ts'
import { decryptBeside } from './rsa-pool.ts'

export interface OpenedEnvelope {
  /** What the key made of the ciphertext. */
  readonly content: Buffer
  /** Whether it counts: the key was unwrapped, and padding or tag fit. If not, nobody outside may learn it in time. */
  readonly intact: boolean
  readonly algorithm: CipherName
  readonly keyTransport: KeyManagement
}

export type EnvelopeType = 'envelopedData' | 'authEnvelopedData'

/** An envelope about to be made: all that stands before its octets is known. */
export interface SealedEnvelope {
  readonly contentType: EnvelopeType
  readonly cipher: Cipheriv
  /** The authentication tag of GCM, once the cipher has ended. */
  readonly mac: () => Buffer | null
  /** What stands around the octets; the tag stands after them. */
  readonly wrapping: (mac: Buffer | null) => Wrapping
}

/** AuthEnvelopedData for GCM, EnvelopedData for CBC. */
export function startEnvelope(encryption: Encryption, randomness: Randomness): SealedEnvelope {
  const { algorithm } = encryption
  const { keyBytes, ivBytes, mode } = CIPHERS[algorithm]
  const key = randomness.contentKey(keyBytes)
  const recipients = randomness.recipients(() => toBuffer(setOf(formatRecipient(key, encryption))))
  const { cipher, parameters, mac } = startSealing(algorithm, { key, iv: randomness.iv(ivBytes) })
  const contentType = mode === 'CBC' ? 'envelopedData' : 'authEnvelopedData'
  // AuthEnvelopedData has but one version (RFC 5083 §2.1).
  const version = mode === 'CBC' ? envelopeVersion(encryption) : 0
  const beforeOctets = [objectIdentifier(CONTENT_TYPE.data), parameters]
  return {
    contentType,
    cipher,
    mac,
    wrapping: (tag) => ({
      levels: [
        ...contentInfoLevels(CONTENT_TYPE[contentType]),
        {
          tag: TAG.SEQUENCE,
          before: [integer(version), recipients],
          after: tag === null ? [] : [octetString(tag)],
        },
        { tag: TAG.SEQUENCE, before: beforeOctets },
      ],
      octetTag: contextTag(0, 'primitive'),
    }),
  }
}

/** The ContentInfo of the encrypted bytes. */
export function formatEnvelopedData(
  bytes: Buffer,
  encryption: Encryption,
  { limitBytes, randomness }: Making = MAKING,
): { contentType: EnvelopeType; bytes: Buffer } {
  const { contentType, cipher, mac, wrapping } = startEnvelope(encryption, randomness)
  const octets = [cipher.update(bytes), cipher.final()]
  return { contentType, bytes: wrapOctets(wrapping(mac()), octets, limitBytes) }
}

/**
 * Decrypts with the key that the message names by issuer and serial number or by subject key identifier. A failure is
 * no exception but a mark: whoever opens the message goes on as far as with any other (RFC 3218 §2.3.2).
 * @throws Refusal `decryption-failed` for what can be told from the message alone; Asn1Error
 */
export async function openEnvelopedData(
  contentType: EnvelopeType,
  content: BerElement,
  keys: readonly DecryptionKey[],
): Promise<OpenedEnvelope> {
  const fields = content.children()
  fields.next(TAG.INTEGER)
  fields.optional(contextTag(0, 'constructed'))
  const recipients = findRecipients(fields.next(TAG.SET), keys)
  const sealed = readSealedContent(fields.next(TAG.SEQUENCE))
  const authentication = contentType === 'authEnvelopedData' ? readAuthentication(fields) : null
  const start = startOf(sealed.chunks)
  const { key, usable, method } = await contentKeyOf(recipients, { ...sealed, start }, decryptBeside)
  const opened = openContent(sealed, key, authentication)
  return {
    content: opened.content,
    intact: usable && opened.intact,
    algorithm: sealed.algorithm,
    keyTransport: method,
  }
}

/** By so many of the first bytes of a ciphertext it is told which key it is under. */
export const START_BYTES = 64

/** Not all of it need lie in the first chunk. */
function startOf(chunks: readonly Buffer[]): Buffer {
  const [first = Buffer.alloc(0)] = chunks
  const all = first.length < START_BYTES ? Buffer.concat(chunks) : first
  return all.subarray(0, START_BYTES)
}

/** The one refusal of all that goes wrong once a recipient is matched. */
export function cannotDecrypt(): Refusal {
  return new Refusal('decryption-failed', 'the message could not be decrypted with the key of its recipient')
}

export interface ContentKeyFound {
  readonly key: Buffer
  readonly usable: boolean
  readonly method: KeyManagement
}

/**
 * The content key that a recipient has; one that cannot be used must be reported only behind the content. Where several
 * of our keys may be meant all are tried, and the one that makes the start of the ciphertext text counts, as the headers
 * of what is encrypted are: a wrong RSA key gives a key like any other (implicit rejection).
 */
export async function contentKeyOf(
  recipients: readonly Recipient[],
  content: ContentAlgorithm & { readonly start: Buffer },
  decrypt: RsaDecryption,
): Promise<ContentKeyFound> {
  const [first, ...others] = await Promise.all(
    recipients.map((recipient) => contentKey(recipient, content.algorithm, decrypt)),
  )
  if (first === undefined) throw new Error('There is no recipient')
  if (others.length === 0) return first
  const scored = [first, ...others].map((found) => {
    const length = textLength(openStart(content, found.key, content.start))
    return { found, score: found.usable ? length : -1 }
  })
  const best = Math.max(...scored.map(({ score }) => score))
  return scored.find(({ score }) => score === best)?.found ?? first
}

async function contentKey(
  recipient: Recipient,
  algorithm: CipherName,
  decrypt: RsaDecryption,
): Promise<ContentKeyFound> {
  const { keyBytes } = CIPHERS[algorithm]
  const { method } = recipient
  // An unusable key is replaced by a random one, so that its failure looks like any other (RFC 3218 §2.3.2).
  const replacement = randomBytes(keyBytes)
  const unwrapped = await unwrapContentKey(recipient, decrypt)
  return unwrapped?.length === keyBytes
    ? { key: Buffer.from(unwrapped), usable: true, method }
    : { key: replacement, usable: false, method }
}

/** How many bytes of text bytes begin with. */
function textLength(bytes: Buffer): number {
  const end = bytes.findIndex((octet) => !isTextOctet(octet))
  return end < 0 ? bytes.length : end
}

function readAuthentication(fields: BerReader): Authentication {
  const attributes = fields.optional(contextTag(1, 'constructed'))
  return authenticationOf(attributes, fields.next(TAG.OCTET_STRING).octets())
}

export function authenticationOf(attributes: BerElement | null, mac: Buffer): Authentication {
  // The attributes are authenticated under the tag of SET OF, in DER (RFC 5083 §2.2).
  return { mac, attributes: attributes === null ? null : toBuffer(element(TAG.SET, attributes.contents)) }
}
