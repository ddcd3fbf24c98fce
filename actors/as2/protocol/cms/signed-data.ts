/** SignedData (RFC 5652 §5) with one signer and signed attributes. */
import { Asn1Error } from '../asn1/asn1-error.ts'
import type { BerElement } from '../asn1/reader.ts'
import { CONSTRUCTED, contextTag, TAG } from '../asn1/tag.ts'
import {
  algorithmIdentifier,
  element,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  time,
  toBuffer,
} from '../asn1/writer.ts'
import type { Part } from '../asn1/writer.ts'
import { algorithmName } from '../algorithm-names.ts'
import { DIGESTS, digestOfOid, isSigningDigest } from '../algorithms.ts'
import type { SigningDigest } from '../algorithms.ts'
import { prepareCertificate } from '../certificate.ts'
import type { CertificateIdentifier } from '../certificate.ts'
import { Refusal } from '../refusal.ts'
import { readCertificateIdentifier } from './certificate-identifier.ts'
import { formatContentInfo } from './content-info.ts'
import { ATTRIBUTE, CONTENT_TYPE } from './oids.ts'
import { formatSignatureAlgorithm, readSignatureAlgorithm, signBytes } from './signature.ts'
import type { SignatureAlgorithm, Signing } from './signature.ts'

const MAX_ATTRIBUTES = 64
/** More than the chain of a certificate has. */
const MAX_CARRIED = 16

/** What a SignedData says, before anything of it is verified. */
export interface SignedData {
  readonly signer: CertificateIdentifier
  readonly digestAlgorithm: SigningDigest
  /** Of the attribute `messageDigest`. */
  readonly messageDigest: Buffer
  /** The signed attributes as a SET OF: the bytes under the signature (RFC 5652 §5.4). */
  readonly signedAttributes: Buffer
  readonly signatureAlgorithm: SignatureAlgorithm
  readonly signature: Buffer
  /** The certificates that travel along, DER, as far as they are looked at: they make nothing genuine. */
  readonly carried: readonly Buffer[]
  /** The content of an opaque signature; null for a detached one. */
  readonly content: Buffer | null
}

/**
 * The ContentInfo of a detached signature over content of the given digest. The attributes are contentType,
 * messageDigest and signingTime; CMSAlgorithmProtection is left out, since some products refuse it.
 */
export async function formatDetachedSignature(
  messageDigest: Buffer,
  signing: Signing,
  signingTime: Date,
): Promise<Buffer> {
  const certificate = prepareCertificate(signing.certificate)
  const attributes = [
    attribute(ATTRIBUTE.contentType, objectIdentifier(CONTENT_TYPE.data)),
    attribute(ATTRIBUTE.signingTime, time(signingTime)),
    attribute(ATTRIBUTE.messageDigest, octetString(messageDigest)),
  ]
  const signedAttributes = toBuffer(setOf(...attributes))
  const signature = await signBytes(signedAttributes, signing)
  const digestAlgorithm = algorithmIdentifier(DIGESTS[signing.algorithm].oid)
  const signerInfo = sequence(
    integer(1),
    certificate.issuerAndSerialNumber,
    digestAlgorithm,
    Buffer.from([contextTag(0, 'constructed')]),
    signedAttributes.subarray(1),
    formatSignatureAlgorithm(signing),
    octetString(signature),
  )
  return formatContentInfo(
    CONTENT_TYPE.signedData,
    sequence(
      integer(1),
      setOf(digestAlgorithm),
      sequence(objectIdentifier(CONTENT_TYPE.data)),
      tagged(0, certificate.der),
      setOf(signerInfo),
    ),
  )
}

function attribute(oid: string, value: Part): Part {
  return sequence(objectIdentifier(oid), setOf(value))
}

/** What a SignerInfo says. */
export type SignerFacts = Omit<SignedData, 'carried' | 'content'>

/**
 * Reads a SignedData. Of certificates only those of the partner's profile count, not those inside. Attributes that are
 * not signed are passed over.
 * @throws Refusal `authentication-failed` unless there is one signer whose attributes hold what they must;
 *   Asn1Error
 */
export function readSignedData(content: BerElement): SignedData {
  const fields = content.children()
  fields.next(TAG.INTEGER)
  fields.next(TAG.SET)
  const encapsulated = fields.next(TAG.SEQUENCE).children()
  const contentType = encapsulated.next(TAG.OBJECT_IDENTIFIER).oid()
  const encapsulatedContent = encapsulated.optional(contextTag(0, 'constructed'))
  const carried = readCarried(fields.optional(contextTag(0, 'constructed')))
  fields.optional(contextTag(1, 'constructed'))
  const signer = readSigners(fields.next(TAG.SET), contentType)
  return { ...signer, carried, content: encapsulatedContent?.children().next().octets() ?? null }
}

/** The first of the CertificateSet, as what they are (RFC 5652 §10.2.2); nothing depends on others, or on broken ones. */
export function readCarried(certificates: BerElement | null): readonly Buffer[] {
  const carried: Buffer[] = []
  try {
    for (const each of certificates?.children() ?? []) {
      if (each.tag === TAG.SEQUENCE) carried.push(each.raw)
      if (carried.length === MAX_CARRIED) break
    }
  } catch (thrown) {
    if (!(thrown instanceof Asn1Error)) throw thrown
  }
  return carried
}

/**
 * Reads the SignerInfos over content of a type.
 * @throws Refusal `authentication-failed`, Asn1Error
 */
export function readSigners(signerInfos: BerElement, contentType: string): SignerFacts {
  const signers = signerInfos.children()
  if (signers.atEnd) throw new Refusal('authentication-failed', 'the signature has no signer')
  const signer = readSignerInfo(signers.next(TAG.SEQUENCE), contentType)
  if (!signers.atEnd) throw new Refusal('authentication-failed', 'the signature has more than one signer')
  return signer
}

function readSignerInfo(signerInfo: BerElement, contentType: string): SignerFacts {
  const fields = signerInfo.children()
  fields.next(TAG.INTEGER)
  const signer = readCertificateIdentifier(fields.next())
  const digestOid = fields.next(TAG.SEQUENCE).children().next(TAG.OBJECT_IDENTIFIER).oid()
  const digestAlgorithm = digestOfOid(digestOid)
  if (digestAlgorithm === null || !isSigningDigest(digestAlgorithm)) {
    throw new Refusal(
      'authentication-failed',
      `the signature's digest ${algorithmName(digestOid)} is not supported`,
    )
  }
  const attributes = fields.optional(contextTag(0, 'constructed'))
  // Without attributes, those of another signature could be passed off as content (RFC 5652 §11.1).
  if (attributes === null)
    throw new Refusal('authentication-failed', 'the signature has no signed attributes')
  const messageDigest = readMessageDigest(attributes, contentType)
  const signatureAlgorithm = readSignatureAlgorithm(fields.next(TAG.SEQUENCE), digestAlgorithm)
  const signature = fields.next(TAG.OCTET_STRING).octets()
  const signedAttributes = toBuffer(
    attributes.indefinite
      ? element(TAG.SET, attributes.contents)
      : Buffer.concat([Buffer.from([TAG.SET]), attributes.raw.subarray(1)]),
  )
  return { signer, digestAlgorithm, messageDigest, signedAttributes, signatureAlgorithm, signature }
}

/** The attributes must name the content type and the digest, once each (RFC 5652 §11.1, §11.2). */
function readMessageDigest(attributes: BerElement, contentType: string): Buffer {
  const single = new Map<string, BerElement>()
  let count = 0
  for (const each of attributes.children()) {
    if (++count > MAX_ATTRIBUTES) throw new Refusal('authentication-failed', 'too many signed attributes')
    const fields = each.children()
    const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
    if (oid !== ATTRIBUTE.contentType && oid !== ATTRIBUTE.messageDigest) continue
    const values = fields.next(TAG.SET).children()
    const value = values.next()
    if (single.has(oid) || !values.atEnd) {
      throw new Refusal('authentication-failed', 'a signed attribute occurs more than once')
    }
    single.set(oid, value)
  }
  const digest = single.get(ATTRIBUTE.messageDigest)
  if (single.get(ATTRIBUTE.contentType)?.oid() !== contentType) {
    throw new Refusal('authentication-failed', 'the signed attributes do not name the type of the content')
  }
  if (digest === undefined || (digest.tag & ~CONSTRUCTED) !== TAG.OCTET_STRING) {
    throw new Refusal('authentication-failed', 'the signed attributes hold no digest of the content')
  }
  return digest.octets()
}
