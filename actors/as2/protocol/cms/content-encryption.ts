/** EncryptedContentInfo (RFC 5652 §6.1): content under a symmetric key, in CBC or GCM. */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import { CIPHERS, cipherOfOid, GCM_TAG_BYTES } from '../algorithms.ts'
import type { CipherName } from '../algorithms.ts'
import type { BerElement } from '../asn1/reader.ts'
import { CONSTRUCTED, contextTag, TAG } from '../asn1/tag.ts'
import {
  algorithmIdentifier,
  element,
  integer,
  objectIdentifier,
  octetString,
  sequence,
} from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import { Refusal } from '../refusal.ts'
import { CONTENT_TYPE } from './oids.ts'

const MAX_NONCE_BYTES = 64

/** Encrypted content as it lies in a message. */
export interface SealedContent {
  readonly algorithm: CipherName
  readonly iv: Buffer
  readonly chunks: readonly Buffer[]
}

export interface ContentKey {
  readonly key: Buffer
  readonly iv: Buffer
}

/** The EncryptedContentInfo, and for GCM the authentication tag. */
export function sealContent(
  algorithm: CipherName,
  { key, iv }: ContentKey,
  bytes: Buffer,
): { info: Der; mac: Buffer | null } {
  const facts = CIPHERS[algorithm]
  if (facts.mode === 'CBC') {
    const cipher = createCipheriv(facts.node, key, iv)
    const ciphertext = [cipher.update(bytes), cipher.final()]
    return { info: formatInfo(facts.oid, octetString(iv), ciphertext), mac: null }
  }
  const authTagLength = GCM_TAG_BYTES.written
  const cipher = createCipheriv(facts.node, key, iv, { authTagLength })
  const ciphertext = [cipher.update(bytes), cipher.final()]
  const parameters = sequence(octetString(iv), integer(authTagLength))
  return { info: formatInfo(facts.oid, parameters, ciphertext), mac: cipher.getAuthTag() }
}

function formatInfo(oid: string, parameters: Der, ciphertext: readonly Buffer[]): Der {
  return sequence(
    objectIdentifier(CONTENT_TYPE.data),
    algorithmIdentifier(oid, parameters),
    element(contextTag(0, 'primitive'), ...ciphertext),
  )
}

/** @throws Refusal, Asn1Error */
export function readSealedContent(info: BerElement): SealedContent {
  const fields = info.children()
  fields.next(TAG.OBJECT_IDENTIFIER)
  const algorithmFields = fields.next(TAG.SEQUENCE).children()
  const oid = algorithmFields.next(TAG.OBJECT_IDENTIFIER).oid()
  const algorithm = cipherOfOid(oid)
  if (algorithm === null) throw new Refusal('decryption-failed', `content encryption ${oid} is not supported`)
  const { mode, ivBytes } = CIPHERS[algorithm]
  const parameters = algorithmFields.next()
  const iv = (mode === 'CBC' ? parameters : parameters.children().next(TAG.OCTET_STRING)).octets()
  const fits = mode === 'CBC' ? iv.length === ivBytes : iv.length > 0 && iv.length <= MAX_NONCE_BYTES
  if (!fits) throw new Refusal('decryption-failed', 'the initialisation vector has a wrong length')
  const content = fields.next()
  if ((content.tag & ~CONSTRUCTED) !== contextTag(0, 'primitive')) {
    throw new Refusal('decryption-failed', 'the encrypted content is missing')
  }
  return { algorithm, iv, chunks: content.octetChunks() }
}

/** Where the authentication of GCM stands: in fields of its own, or (null) at the end of the ciphertext. */
export interface Authentication {
  readonly mac: Buffer
  readonly attributes: Buffer | null
}

/** The content, or null when padding or tag do not fit. */
export function openContent(
  sealed: SealedContent,
  key: Buffer,
  authentication: Authentication | null,
): Buffer | null {
  const facts = CIPHERS[sealed.algorithm]
  try {
    if (facts.mode === 'CBC') {
      const decipher = createDecipheriv(facts.node, key, sealed.iv)
      const plain = sealed.chunks.map((chunk) => decipher.update(chunk))
      return Buffer.concat([...plain, decipher.final()])
    }
    const { ciphertext, mac } = splitMac(sealed, authentication)
    if (mac.length < GCM_TAG_BYTES.shortest) return null
    const decipher = createDecipheriv(facts.node, key, sealed.iv, { authTagLength: mac.length })
    decipher.setAuthTag(mac)
    const attributes = authentication?.attributes ?? null
    if (attributes !== null) decipher.setAAD(attributes)
    return Buffer.concat([decipher.update(ciphertext), decipher.final()])
  } catch {
    return null
  }
}

/** EnvelopedData with GCM, as some products make it, ends in the tag; RFC 5084 has it in a field. */
function splitMac(
  sealed: SealedContent,
  authentication: Authentication | null,
): { ciphertext: Buffer; mac: Buffer } {
  const bytes = Buffer.concat(sealed.chunks)
  if (authentication !== null) return { ciphertext: bytes, mac: authentication.mac }
  const split = Math.max(0, bytes.length - GCM_TAG_BYTES.written)
  return { ciphertext: bytes.subarray(0, split), mac: bytes.subarray(split) }
}
