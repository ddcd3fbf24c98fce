/** What CMS needs to know of a certificate, read once. */
import { createHash, createPublicKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { BerReader } from './asn1/reader.ts'
import { contextTag, TAG } from './asn1/tag.ts'
import { sequence, toBuffer } from './asn1/writer.ts'
import { isCurve } from './key-agreement-algorithms.ts'

const SUBJECT_KEY_IDENTIFIER = '2.5.29.14'
/** A shorter RSA key is broken. */
const LEAST_RSA_BITS = 1024
/** A shorter RSA key is on its way to be (NIST SP 800-131A). */
const SOUND_RSA_BITS = 2048

/** Signature algorithms of certificates whose digest no longer resists collisions. */
const WEAK_SIGNATURES: Readonly<Record<string, string>> = {
  '1.2.840.113549.1.1.2': 'MD2',
  '1.2.840.113549.1.1.4': 'MD5',
  '1.2.840.113549.1.1.5': 'SHA-1',
  '1.3.14.3.2.29': 'SHA-1',
  '1.2.840.10040.4.3': 'SHA-1',
  '1.2.840.10045.4.1': 'SHA-1',
}

/** A larger key is not read from a certificate that a stranger sends: of an RSA key it is one of 8192 bits. */
const MAX_CARRIED_KEY_BYTES = 1_100

interface PublicKeyInfo {
  readonly der: Buffer
  /** Whether all parameters of the key are named by object identifiers: none are of own making. */
  readonly hasNamedParameters: boolean
}

/** What a certificate says, before its key is looked at. */
interface CertificateFields {
  readonly publicKeyInfo: PublicKeyInfo
  /** The contents of `subjectPublicKey`: for an EC key its point. */
  readonly publicKeyBits: Buffer
  /** Of whoever issued it; object identifier in dotted form. */
  readonly signatureAlgorithm: string
  /** The IssuerAndSerialNumber that names it (RFC 5652 §10.2.4), DER. */
  readonly issuerAndSerialNumber: Buffer
  /** The issuer's Name as it stands in the certificate. */
  readonly issuer: Buffer
  /** The contents octets of the serial number. */
  readonly serialNumber: Buffer
  /** Of the extension, and as RFC 5280 §4.2.1.2 (1) derives it from the key. */
  readonly subjectKeyIdentifiers: readonly Buffer[]
}

export interface PreparedCertificate extends Omit<CertificateFields, 'publicKeyInfo'> {
  readonly der: Buffer
  readonly publicKey: KeyObject
  /** Why its key counts for nothing, or null. */
  readonly unsound: string | null
}

/** How CMS names a certificate: SignerIdentifier and RecipientIdentifier alike. */
export type CertificateIdentifier =
  | { readonly by: 'issuer-and-serial'; readonly issuer: Buffer; readonly serialNumber: Buffer }
  | { readonly by: 'subject-key-identifier'; readonly subjectKeyIdentifier: Buffer }

/** A certificate of ours or of the partner that is not one, or not to be used. */
class CertificateError extends Error {
  override readonly name = 'CertificateError'
}

const prepared = new WeakMap<Buffer, PreparedCertificate>()

/**
 * Reads a certificate. The result is kept as long as the buffer lives, so a caller that holds on to its
 * buffers pays once.
 * @throws CertificateError when it is not a certificate, or its key is of an unknown kind
 */
export function prepareCertificate(der: Buffer): PreparedCertificate {
  let certificate = prepared.get(der)
  if (certificate === undefined) {
    try {
      certificate = readCertificate(der)
    } catch (thrown) {
      throw new CertificateError('a certificate cannot be read', { cause: thrown })
    }
    prepared.set(der, certificate)
  }
  return certificate
}

/**
 * The key of a certificate that travels with a signature and is named by it: null for another certificate, and for what
 * cannot be read or is not worth the work. It makes nothing genuine, and nothing of it is kept.
 */
export function carriedKey(der: Buffer, identifier: CertificateIdentifier): KeyObject | null {
  try {
    const fields = readFields(der)
    const { publicKeyInfo } = fields
    const isReadable = publicKeyInfo.hasNamedParameters && publicKeyInfo.der.length <= MAX_CARRIED_KEY_BYTES
    if (!isReadable || !matchesIdentifier(fields, identifier)) return null
    const publicKey = publicKeyOf(publicKeyInfo)
    return unsoundness(publicKey) === null ? publicKey : null
  } catch {
    return null
  }
}

/**
 * What is weak about a certificate that counts all the same: a short RSA key, or a signature with SHA-1 or MD5. Null
 * when nothing is.
 * @throws CertificateError when it is not a certificate
 */
export function weakness(der: Buffer): string | null {
  const { publicKey, signatureAlgorithm } = prepareCertificate(der)
  const bits = publicKey.asymmetricKeyDetails?.modulusLength ?? null
  const digest = WEAK_SIGNATURES[signatureAlgorithm]
  const found: string[] = []
  if (bits !== null && bits < SOUND_RSA_BITS) {
    found.push(`its RSA key has ${bits} bits, and should have ${SOUND_RSA_BITS} or more`)
  }
  if (digest !== undefined) found.push(`it was signed with ${digest}`)
  return found.length === 0 ? null : found.join(', and ')
}

/** Why nothing is signed with, verified with or encrypted to a key: it is broken, or not to be judged. */
function unsoundness({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject): string | null {
  if (type === 'rsa' || type === 'rsa-pss') {
    const bits = details?.modulusLength ?? 0
    return bits < LEAST_RSA_BITS ? `its RSA key of ${bits} bits is shorter than ${LEAST_RSA_BITS}` : null
  }
  // A curve of own making may be one whose secrets its maker knows (CVE-2020-0601).
  if (type === 'ec' && !isCurve(details?.namedCurve)) {
    return `its key is on the curve ${details?.namedCurve ?? 'without a name'}, which is weak or unknown`
  }
  return null
}

export function matchesIdentifier(
  certificate: Pick<PreparedCertificate, 'subjectKeyIdentifiers' | 'issuer' | 'serialNumber'>,
  identifier: CertificateIdentifier,
): boolean {
  if (identifier.by === 'subject-key-identifier') {
    return certificate.subjectKeyIdentifiers.some((each) => each.equals(identifier.subjectKeyIdentifier))
  }
  const { issuer, serialNumber } = identifier
  return certificate.issuer.equals(issuer) && certificate.serialNumber.equals(serialNumber)
}

function readCertificate(der: Buffer): PreparedCertificate {
  const { publicKeyInfo, ...fields } = readFields(der)
  const publicKey = publicKeyOf(publicKeyInfo)
  return { ...fields, der, publicKey, unsound: unsoundness(publicKey) }
}

function publicKeyOf({ der }: PublicKeyInfo): KeyObject {
  return createPublicKey({ key: Buffer.from(der), format: 'der', type: 'spki' })
}

function readFields(der: Buffer): CertificateFields {
  const certificate = new BerReader(der).next(TAG.SEQUENCE).children()
  const tbs = certificate.next(TAG.SEQUENCE).children()
  const signatureAlgorithm = certificate.next(TAG.SEQUENCE).children().next(TAG.OBJECT_IDENTIFIER).oid()
  tbs.optional(contextTag(0, 'constructed'))
  const serialNumber = tbs.next(TAG.INTEGER)
  tbs.next(TAG.SEQUENCE)
  const issuer = tbs.next(TAG.SEQUENCE)
  tbs.next(TAG.SEQUENCE)
  tbs.next(TAG.SEQUENCE)
  const publicKeyInfo = tbs.next(TAG.SEQUENCE)
  const keyInfo = publicKeyInfo.children()
  const keyAlgorithm = keyInfo.next(TAG.SEQUENCE)
  const publicKeyBits = keyInfo.next(TAG.BIT_STRING).contents.subarray(1)
  tbs.optional(contextTag(1, 'primitive'))
  tbs.optional(contextTag(2, 'primitive'))
  const extensions = tbs.optional(contextTag(3, 'constructed'))
  const identifiers: Buffer[] = [createHash('sha1').update(publicKeyBits).digest()]
  for (const extension of extensions?.children().next(TAG.SEQUENCE).children() ?? []) {
    const fields = extension.children()
    if (fields.next().oid() !== SUBJECT_KEY_IDENTIFIER) continue
    fields.optional(TAG.BOOLEAN)
    identifiers.push(new BerReader(fields.next(TAG.OCTET_STRING).octets()).next(TAG.OCTET_STRING).octets())
  }
  const namedParameters = [TAG.OBJECT_IDENTIFIER, TAG.NULL] as readonly number[]
  return {
    publicKeyInfo: {
      der: publicKeyInfo.raw,
      hasNamedParameters: [...keyAlgorithm.children()].every(({ tag }) => namedParameters.includes(tag)),
    },
    publicKeyBits,
    signatureAlgorithm,
    issuerAndSerialNumber: toBuffer(sequence(issuer.raw, serialNumber.raw)),
    issuer: issuer.raw,
    serialNumber: serialNumber.contents,
    subjectKeyIdentifiers: identifiers,
  }
}
