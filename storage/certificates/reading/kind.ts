import { childrenOf, contextTag, integerOf, TAG, type DerElement } from './der.ts'
import { privateKeyFormat } from './private-key.ts'

/** What a DER or BER sequence is, by its shape. */
export type Kind =
  | 'certificate'
  | 'private key'
  | 'PKCS#7'
  | 'PKCS#12'
  | 'certificate request'
  | 'revocation list'
  | 'public key'

const TIMES: ReadonlySet<number> = new Set([0x17, 0x18])

/** Null for what is none of them. Throws a DerError for what is no DER inside. */
export function kindOf(element: DerElement): Kind | null {
  if (element.tag !== TAG.sequence) return null
  const children = childrenOf(element)
  const [first, second, third] = children
  if (first === undefined || second === undefined) return null
  if (first.tag === TAG.objectIdentifier) return 'PKCS#7'
  if (first.tag === TAG.integer && second.tag === TAG.sequence && third?.tag !== TAG.octetString) {
    return integerOf(first) === 3 ? 'PKCS#12' : null
  }
  if (privateKeyFormat(children) !== null) return 'private key'
  if (first.tag !== TAG.sequence) return null
  if (second.tag === TAG.bitString && third === undefined) return 'public key'
  return second.tag === TAG.sequence && third?.tag === TAG.bitString ? signedKind(first) : null
}

/** Certificates (RFC 5280 §4.1), requests (RFC 2986 §4.1) and revocation lists (RFC 5280 §5.1) are signed alike. */
function signedKind(signed: DerElement): Kind {
  const parts = childrenOf(signed)
  if (parts[0]?.tag === contextTag(0)) return 'certificate'
  if (parts.some(({ tag }) => TIMES.has(tag))) return 'revocation list'
  return parts.length <= 4 ? 'certificate request' : 'certificate'
}
