import { childAt, childrenOf, contextTag, objectIdentifierOf, TAG, type DerElement } from './der.ts'
import { UnusableError } from './refusal.ts'

/** The certificates of a PKCS#7 file (RFC 2315, RFC 5652 §5.1), whatever else is signed in it. */
export interface Pkcs7Content {
  /** DER of X.509. */
  readonly certificates: readonly Buffer[]
  /** Certificates of other kinds, such as attribute certificates. */
  readonly others: number
}

const SIGNED_DATA = '1.2.840.113549.1.7.2'

/** Throws an UnusableError or a DerError. `file` is the ContentInfo, DER or BER. */
export function readPkcs7(file: DerElement): Pkcs7Content {
  const parts = childrenOf(file)
  if (objectIdentifierOf(childAt(parts, 0)) !== SIGNED_DATA) {
    throw new UnusableError('it is a PKCS#7 file of another kind than one with certificates')
  }
  const signedData = childAt(childrenOf(childAt(parts, 1, contextTag(0))), 0, TAG.sequence)
  // The set of certificates is optional, tagged [0], and stands after version, digests and content.
  const set = childrenOf(signedData).find((part) => part.tag === contextTag(0))
  const choices = set === undefined ? [] : childrenOf(set)
  const certificates = choices.filter(({ tag }) => tag === TAG.sequence).map(({ raw }) => raw)
  return { certificates, others: choices.length - certificates.length }
}
