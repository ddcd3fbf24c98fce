/** SignerIdentifier and RecipientIdentifier (RFC 5652 §5.3, §6.2.1). */
import type { BerElement } from '../asn1/reader.ts'
import { CONSTRUCTED, contextTag, TAG } from '../asn1/tag.ts'
import type { CertificateIdentifier } from '../certificate.ts'

/** @throws Asn1Error */
export function readCertificateIdentifier(identifier: BerElement): CertificateIdentifier {
  if ((identifier.tag & ~CONSTRUCTED) === contextTag(0, 'primitive')) {
    return { by: 'subject-key-identifier', subjectKeyIdentifier: identifier.octets() }
  }
  const fields = identifier.children()
  const issuer = fields.next(TAG.SEQUENCE).raw
  return { by: 'issuer-and-serial', issuer, serialNumber: fields.next(TAG.INTEGER).contents }
}
