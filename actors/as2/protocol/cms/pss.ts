/**
 * RSASSA-PSS: its parameters, and its verification where the mask has another digest than the signature, which
 * node:crypto does not offer and others sign with: SHA-256 with the SHA-1 that the mask has by default.
 */
import { constants, createPublicKey, publicDecrypt } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { DIGESTS, digestOfOid, isSigningDigest, MGF1_OID } from '../algorithms.ts'
import type { SigningDigest } from '../algorithms.ts'
import { BerReader } from '../asn1/reader.ts'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import { digest as digestOf } from '../mic.ts'
import { Refusal } from '../refusal.ts'
import { mask, xor } from './mgf1.ts'

export interface PssParameters {
  readonly maskDigest: SigningDigest
  /** In bytes; or RSA_PSS_SALTLEN_AUTO for whatever it is. */
  readonly saltLength: number
}

/**
 * RSASSA-PSS-params (RFC 8017 A.2.3), with SHA-1 and a salt of 20 bytes where one says nothing. They must be there (RFC
 * 4056 §3); pyas2 leaves all of them out, and means the signer's digest with a salt of whatever length.
 * @throws Refusal `authentication-failed` for what is unknown or contradicts itself; Asn1Error
 */
export function readPssParameters(parameters: BerElement | null, digest: SigningDigest): PssParameters {
  if (parameters === null) return { maskDigest: digest, saltLength: constants.RSA_PSS_SALTLEN_AUTO }
  const sha1: string = DIGESTS.SHA1.oid
  const said = { digest: sha1, mask: sha1, saltLength: DIGESTS.SHA1.bytes as number, trailer: 1 }
  for (const parameter of parameters.children()) {
    const value = parameter.children().next()
    if (parameter.tag === contextTag(0, 'constructed')) said.digest = value.children().next().oid()
    if (parameter.tag === contextTag(1, 'constructed')) {
      const generator = value.children()
      if (generator.next(TAG.OBJECT_IDENTIFIER).oid() === MGF1_OID) {
        said.mask = generator.next(TAG.SEQUENCE).children().next().oid()
      } else said.mask = ''
    }
    if (parameter.tag === contextTag(2, 'constructed')) said.saltLength = value.smallInteger()
    if (parameter.tag === contextTag(3, 'constructed')) said.trailer = value.smallInteger()
  }
  if (digestOfOid(said.digest) !== digest) {
    throw new Refusal('authentication-failed', 'the PSS signature names another digest than the signer')
  }
  const maskDigest = digestOfOid(said.mask)
  if (maskDigest === null || !isSigningDigest(maskDigest)) {
    throw new Refusal('authentication-failed', 'the mask of the PSS signature is not supported')
  }
  if (said.saltLength < 0 || said.trailer !== 1) {
    throw new Refusal('authentication-failed', 'the parameters of the PSS signature are out of range')
  }
  return { maskDigest, saltLength: said.saltLength }
}

/** What is signed, and how; the length of the salt is known. */
export interface PssSignature extends PssParameters {
  readonly digest: SigningDigest
  readonly bytes: Buffer
  readonly signature: Buffer
}

/**
 * RSASSA-PSS-VERIFY (RFC 8017 §8.1.2). False for a key that may not sign so (RFC 4055 §3.3).
 * @throws what node:crypto says of a signature that is none of the key's length or range
 */
export function isPssSignedBy(key: KeyObject, { bytes, signature, ...parameters }: PssSignature): boolean {
  const { modulusLength = 0 } = key.asymmetricKeyDetails ?? {}
  if (!isAllowedBy(key, parameters) || signature.length !== Math.ceil(modulusLength / 8)) return false
  const message = publicDecrypt({ key: plainKey(key), padding: constants.RSA_NO_PADDING }, signature)
  const encodedBits = modulusLength - 1
  // One octet more than the encoding has where its bits fill whole octets: it is zero then.
  const unused = message.length - Math.ceil(encodedBits / 8)
  if (message.subarray(0, unused).some((octet) => octet !== 0)) return false
  return isEncoded(message.subarray(unused), encodedBits, { ...parameters, bytes })
}

/** EMSA-PSS-VERIFY (RFC 8017 §9.1.2). */
function isEncoded(
  encoded: Buffer,
  encodedBits: number,
  { bytes, digest, maskDigest, saltLength }: Omit<PssSignature, 'signature'>,
): boolean {
  const hashBytes = DIGESTS[digest].bytes
  if (saltLength < 0 || encoded.length < hashBytes + saltLength + 2 || encoded.at(-1) !== 0xbc) return false
  const maskedBytes = encoded.length - hashBytes - 1
  const masked = encoded.subarray(0, maskedBytes)
  const hash = encoded.subarray(maskedBytes, maskedBytes + hashBytes)
  const firstOctet = 0xff >> (8 * encoded.length - encodedBits)
  if (((masked[0] ?? 0) & ~firstOctet) !== 0) return false
  const block = xor(masked, mask(maskDigest, hash, maskedBytes))
  block[0] = (block[0] ?? 0) & firstOctet
  const saltStart = maskedBytes - saltLength
  if (block.subarray(0, saltStart - 1).some((octet) => octet !== 0) || block[saltStart - 1] !== 1)
    return false
  const salted = Buffer.concat([Buffer.alloc(8), digestOf(digest, bytes), block.subarray(saltStart)])
  return digestOf(digest, salted).equals(hash)
}

function isAllowedBy(
  { asymmetricKeyDetails: allowed = {} }: KeyObject,
  { digest, maskDigest, saltLength }: PssParameters & { readonly digest: SigningDigest },
): boolean {
  if (allowed.hashAlgorithm === undefined) return true
  return (
    allowed.hashAlgorithm === DIGESTS[digest].node &&
    allowed.mgf1HashAlgorithm === DIGESTS[maskDigest].node &&
    saltLength >= (allowed.saltLength ?? 0)
  )
}

/** A key that is for PSS alone is not worked with in any other way, so its numbers are taken out of it. */
function plainKey(key: KeyObject): KeyObject {
  if (key.asymmetricKeyType !== 'rsa-pss') return key
  const fields = new BerReader(key.export({ type: 'spki', format: 'der' })).next(TAG.SEQUENCE).children()
  fields.next(TAG.SEQUENCE)
  const numbers = fields.next(TAG.BIT_STRING).contents.subarray(1)
  return createPublicKey({ key: numbers, format: 'der', type: 'pkcs1' })
}
