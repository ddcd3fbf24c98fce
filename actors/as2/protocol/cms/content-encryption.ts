/** EncryptedContentInfo (RFC 5652 §6.1): content under a symmetric key, in CBC or GCM. */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { CipherGCMTypes, Cipheriv } from 'node:crypto'
import { algorithmName } from '../algorithm-names.ts'
import { CIPHERS, cipherOfOid, GCM_TAG_BYTES } from '../algorithms.ts'
import type { CipherName } from '../algorithms.ts'
import type { BerElement } from '../asn1/reader.ts'
import { CONSTRUCTED, contextTag, TAG } from '../asn1/tag.ts'
import { algorithmIdentifier, integer, octetString, sequence } from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import { Refusal } from '../refusal.ts'

const MAX_NONCE_BYTES = 64

/** How content is encrypted. */
export interface ContentAlgorithm {
  readonly algorithm: CipherName
  readonly iv: Buffer
  /** Of the tag of GCM where it stands at the end of the ciphertext. */
  readonly tagBytes: number
  /** Whether the message itself says so: then no other length counts, which would be easier to guess. */
  readonly isTagLengthStated: boolean
}

/** Encrypted content as it lies in a message. */
export interface SealedContent extends ContentAlgorithm {
  readonly chunks: readonly Buffer[]
}

export interface ContentKey {
  readonly key: Buffer
  readonly iv: Buffer
}

/** A cipher about to encrypt content. `parameters` is the AlgorithmIdentifier that says how. */
export interface Sealing {
  readonly cipher: Cipheriv
  readonly parameters: Der
  /** The authentication tag, once the cipher has ended; null in CBC. */
  readonly mac: () => Buffer | null
}

export function startSealing(algorithm: CipherName, { key, iv }: ContentKey): Sealing {
  const facts = CIPHERS[algorithm]
  if (facts.mode === 'CBC') {
    const cipher = createCipheriv(facts.node, key, iv)
    return { cipher, parameters: algorithmIdentifier(facts.oid, octetString(iv)), mac: () => null }
  }
  const authTagLength = GCM_TAG_BYTES.written
  const cipher = createCipheriv(facts.node, key, iv, { authTagLength })
  const parameters = algorithmIdentifier(facts.oid, sequence(octetString(iv), integer(authTagLength)))
  return { cipher, parameters, mac: () => cipher.getAuthTag() }
}

/** @throws Refusal, Asn1Error */
export function readSealedContent(info: BerElement): SealedContent {
  const fields = info.children()
  fields.next(TAG.OBJECT_IDENTIFIER)
  const algorithm = readContentAlgorithm(fields.next(TAG.SEQUENCE))
  if (fields.atEnd) throw contentMissing()
  const content = fields.next()
  checkSealedTag(content.tag)
  return { ...algorithm, chunks: content.octetChunks() }
}

/** @throws Refusal, Asn1Error */
export function readContentAlgorithm(identifier: BerElement): ContentAlgorithm {
  const fields = identifier.children()
  const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const algorithm = cipherOfOid(oid)
  if (algorithm === null) {
    throw new Refusal('decryption-failed', `content encryption ${algorithmName(oid)} is not supported`)
  }
  const { mode, ivBytes } = CIPHERS[algorithm]
  const parameters = fields.next()
  const { iv, tagBytes, isTagLengthStated } =
    mode === 'CBC' ? readIv(parameters) : readGcmParameters(parameters)
  const fits = mode === 'CBC' ? iv.length === ivBytes : iv.length > 0 && iv.length <= MAX_NONCE_BYTES
  if (!fits) throw new Refusal('decryption-failed', 'the initialisation vector has a wrong length')
  if (!isTagLength(tagBytes)) {
    throw new Refusal('decryption-failed', `an authentication tag of ${tagBytes} bytes is not allowed`)
  }
  return { algorithm, iv, tagBytes, isTagLengthStated }
}

type Parameters = Omit<ContentAlgorithm, 'algorithm'>

function readIv(parameters: BerElement): Parameters {
  return { iv: parameters.octets(), tagBytes: GCM_TAG_BYTES.written, isTagLengthStated: false }
}

/**
 * GCMParameters (RFC 5084 §3.2). PKI.js writes a bare OCTET STRING as for CBC, and it and others leave out the length
 * of their tags of 16 bytes, which then would mean 12.
 */
function readGcmParameters(parameters: BerElement): Parameters {
  if (parameters.tag !== TAG.SEQUENCE) return readIv(parameters)
  const fields = parameters.children()
  const iv = fields.next(TAG.OCTET_STRING).octets()
  const stated = fields.optional(TAG.INTEGER)?.smallInteger() ?? null
  return { iv, tagBytes: stated ?? GCM_TAG_BYTES.written, isTagLengthStated: stated !== null }
}

export function isTagLength(bytes: number): boolean {
  return bytes >= GCM_TAG_BYTES.shortest && bytes <= GCM_TAG_BYTES.written
}

/** Whether a tag is as long as the message says its tags are. */
export function isTagAsStated(
  { tagBytes, isTagLengthStated }: Pick<ContentAlgorithm, 'tagBytes' | 'isTagLengthStated'>,
  mac: Buffer,
): boolean {
  return !isTagLengthStated || mac.length === tagBytes
}

/** @throws Refusal unless what follows the algorithm is the encrypted content */
export function checkSealedTag(tag: number): void {
  if ((tag & ~CONSTRUCTED) !== contextTag(0, 'primitive')) {
    throw contentMissing()
  }
}

/** Its content may travel apart from it by RFC 5652 §6.1, but not in AS2. */
function contentMissing(): Refusal {
  return new Refusal('decryption-failed', 'the encrypted content is missing')
}

/** Where the authentication of GCM stands: in fields of its own, or (null) at the end of the ciphertext. */
export interface Authentication {
  readonly mac: Buffer
  readonly attributes: Buffer | null
}

/** What a key makes of the ciphertext, and whether padding or tag fit. */
export interface OpenedContent {
  readonly content: Buffer
  readonly intact: boolean
}

/** Decrypts. What does not fit is marked, so that the caller can go on with it as with anything else. */
export function openContent(
  sealed: SealedContent,
  key: Buffer,
  authentication: Authentication | null,
): OpenedContent {
  const facts = CIPHERS[sealed.algorithm]
  return facts.mode === 'CBC'
    ? openCbc(facts.node, key, sealed)
    : openGcm(facts.node, key, sealed, authentication)
}

/** What a key makes of the first bytes of a ciphertext, as far as they are whole blocks. */
export function openStart({ algorithm, iv }: ContentAlgorithm, key: Buffer, start: Buffer): Buffer {
  const facts = CIPHERS[algorithm]
  if (facts.mode === 'GCM') return createDecipheriv(facts.node, key, iv).update(start)
  return createDecipheriv(facts.node, key, iv).setAutoPadding(false).update(start)
}

function openCbc(cipher: string, key: Buffer, { iv, chunks, algorithm }: SealedContent): OpenedContent {
  const decipher = createDecipheriv(cipher, key, iv).setAutoPadding(false)
  const plain = Buffer.concat(chunks.map((chunk) => decipher.update(chunk)))
  const { intact, bytes } = paddingOf(plain, CIPHERS[algorithm].ivBytes)
  // Blocks that are cut short can be told from the ciphertext.
  const whole = chunks.reduce((sum, chunk) => sum + chunk.length, 0) === plain.length
  return { content: plain.subarray(0, plain.length - bytes), intact: intact && whole }
}

/**
 * The padding of RFC 5652 §6.3 at the end of blocks of so many bytes. No branch depends on what it is: a wrong one
 * counts as a byte long.
 */
export function paddingOf(
  plain: Buffer,
  blockBytes: number,
): { readonly intact: boolean; readonly bytes: number } {
  if (plain.length < blockBytes) return { intact: false, bytes: 0 }
  const last = plain[plain.length - 1] ?? 0
  // Ones in all bits where a difference is negative.
  let wrong = ((last - 1) >> 31) | ((blockBytes - last) >> 31)
  for (let at = 0; at < blockBytes; at++) {
    wrong |= ((at - last) >> 31) & ((plain[plain.length - 1 - at] ?? 0) ^ last)
  }
  const isWrong = -Number(wrong !== 0)
  return { intact: wrong === 0, bytes: (last & ~isWrong) | (1 & isWrong) }
}

function openGcm(
  cipher: CipherGCMTypes,
  key: Buffer,
  sealed: SealedContent,
  authentication: Authentication | null,
): OpenedContent {
  const { ciphertext, mac } = splitMac(sealed, authentication)
  if (!isTagLength(mac.length)) return { content: ciphertext, intact: false }
  const decipher = createDecipheriv(cipher, key, sealed.iv, { authTagLength: mac.length })
  decipher.setAuthTag(mac)
  const attributes = authentication?.attributes ?? null
  if (attributes !== null) decipher.setAAD(attributes)
  const content = decipher.update(ciphertext)
  try {
    decipher.final()
    return { content, intact: isTagAsStated(sealed, mac) }
  } catch {
    return { content, intact: false }
  }
}

/** EnvelopedData with GCM, as some products make it, ends in the tag; RFC 5084 has it in a field. */
function splitMac(
  { chunks, tagBytes }: SealedContent,
  authentication: Authentication | null,
): { ciphertext: Buffer; mac: Buffer } {
  const bytes = Buffer.concat(chunks)
  if (authentication !== null) return { ciphertext: bytes, mac: authentication.mac }
  const split = Math.max(0, bytes.length - tagBytes)
  return { ciphertext: bytes.subarray(0, split), mac: bytes.subarray(split) }
}
