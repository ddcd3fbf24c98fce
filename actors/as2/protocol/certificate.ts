/** What CMS needs to know of a certificate, read once. */
import { createHash, createPublicKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { BerReader } from './asn1/reader.ts'
import { contextTag, TAG } from './asn1/tag.ts'
import { sequence, toBuffer } from './asn1/writer.ts'

const SUBJECT_KEY_IDENTIFIER = '2.5.29.14'

export interface PreparedCertificate {
  readonly der: Buffer
  readonly publicKey: KeyObject
  /** The IssuerAndSerialNumber that names it (RFC 5652 §10.2.4), DER. */
  readonly issuerAndSerialNumber: Buffer
  /** The issuer's Name as it stands in the certificate. */
  readonly issuer: Buffer
  /** The contents octets of the serial number. */
  readonly serialNumber: Buffer
  /** Of the extension, and as RFC 5280 §4.2.1.2 (1) derives it from the key. */
  readonly subjectKeyIdentifiers: readonly Buffer[]
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

export function matchesIdentifier(
  certificate: PreparedCertificate,
  identifier: CertificateIdentifier,
): boolean {
  if (identifier.by === 'subject-key-identifier') {
    return certificate.subjectKeyIdentifiers.some((each) => each.equals(identifier.subjectKeyIdentifier))
  }
  const { issuer, serialNumber } = identifier
  return certificate.issuer.equals(issuer) && certificate.serialNumber.equals(serialNumber)
}

function readCertificate(der: Buffer): PreparedCertificate {
  const tbs = new BerReader(der).next(TAG.SEQUENCE).children().next(TAG.SEQUENCE).children()
  tbs.optional(contextTag(0, 'constructed'))
  const serialNumber = tbs.next(TAG.INTEGER)
  tbs.next(TAG.SEQUENCE)
  const issuer = tbs.next(TAG.SEQUENCE)
  tbs.next(TAG.SEQUENCE)
  tbs.next(TAG.SEQUENCE)
  const publicKeyInfo = tbs.next(TAG.SEQUENCE)
  const keyInfo = publicKeyInfo.children()
  keyInfo.next(TAG.SEQUENCE)
  const keyBits = keyInfo.next(TAG.BIT_STRING).contents.subarray(1)
  tbs.optional(contextTag(1, 'primitive'))
  tbs.optional(contextTag(2, 'primitive'))
  const extensions = tbs.optional(contextTag(3, 'constructed'))
  const identifiers: Buffer[] = [createHash('sha1').update(keyBits).digest()]
  for (const extension of extensions?.children().next(TAG.SEQUENCE).children() ?? []) {
    const fields = extension.children()
    if (fields.next().oid() !== SUBJECT_KEY_IDENTIFIER) continue
    fields.optional(TAG.BOOLEAN)
    identifiers.push(new BerReader(fields.next(TAG.OCTET_STRING).octets()).next(TAG.OCTET_STRING).octets())
  }
  return {
    der,
    publicKey: createPublicKey({ key: Buffer.from(publicKeyInfo.raw), format: 'der', type: 'spki' }),
    issuerAndSerialNumber: toBuffer(sequence(issuer.raw, serialNumber.raw)),
    issuer: issuer.raw,
    serialNumber: serialNumber.contents,
    subjectKeyIdentifiers: identifiers,
  }
}
