/** Making and checking the signature value of a SignerInfo. */
import { constants, sign, verify } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import {
  DIGESTS,
  digestOfOid,
  isSigningDigest,
  MGF1_OID,
  RSA_SIGNATURE_OID,
  signatureOfOid,
} from '../algorithms.ts'
import type { SignatureScheme, SigningDigest } from '../algorithms.ts'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import { algorithmIdentifier, integer, NULL, sequence, tagged } from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import { ComposeError } from '../compose-error.ts'
import { Refusal } from '../refusal.ts'

/** What a message or receipt is signed with. */
export interface Signing {
  readonly algorithm: SigningDigest
  readonly scheme: 'PKCS1' | 'PSS'
  /** The signer's, DER; it travels with the signature. */
  readonly certificate: Buffer
  readonly privateKey: KeyObject
}

export interface SignatureAlgorithm {
  readonly scheme: SignatureScheme
  readonly digest: SigningDigest
  /** In bytes; only for PSS. */
  readonly saltLength: number
}

/** Signs in the thread pool of libuv. */
const signInPool = promisify<
  string,
  Buffer,
  { key: KeyObject; padding: number; saltLength?: number },
  Buffer
>(sign)

/** @throws ComposeError when the key is not an RSA key */
export async function signBytes(bytes: Buffer, { algorithm, scheme, privateKey }: Signing): Promise<Buffer> {
  if (privateKey.asymmetricKeyType !== 'rsa') {
    throw new ComposeError('signing with a key other than RSA is not supported')
  }
  const { node, bytes: saltLength } = DIGESTS[algorithm]
  return scheme === 'PKCS1'
    ? signInPool(node, bytes, { key: privateKey, padding: constants.RSA_PKCS1_PADDING })
    : signInPool(node, bytes, { key: privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength })
}

/** For PSS all parameters are written (RFC 4056 §2.2). */
export function formatSignatureAlgorithm({ algorithm, scheme }: Signing): Der {
  if (scheme === 'PKCS1') return algorithmIdentifier(RSA_SIGNATURE_OID.PKCS1, NULL)
  const { oid, bytes } = DIGESTS[algorithm]
  const digest = algorithmIdentifier(oid, NULL)
  const parameters = sequence(
    tagged(0, digest),
    tagged(1, algorithmIdentifier(MGF1_OID, digest)),
    tagged(2, integer(bytes)),
  )
  return algorithmIdentifier(RSA_SIGNATURE_OID.PSS, parameters)
}

/** @throws Refusal `authentication-failed` for what is unknown or contradicts itself; Asn1Error */
export function readSignatureAlgorithm(algorithm: BerElement, digest: SigningDigest): SignatureAlgorithm {
  const fields = algorithm.children()
  const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const facts = signatureOfOid(oid)
  if (facts === null)
    throw new Refusal('authentication-failed', `signature algorithm ${oid} is not supported`)
  if (facts.digest !== null && facts.digest !== digest) {
    throw new Refusal('authentication-failed', 'the signature names two different digests')
  }
  if (facts.scheme !== 'PSS') return { scheme: facts.scheme, digest, saltLength: 0 }
  return { scheme: 'PSS', digest, saltLength: readPssSaltLength(fields.optional(TAG.SEQUENCE), digest) }
}

/** RSASSA-PSS-params (RFC 8017 A.2.3), with SHA-1 and a salt of 20 bytes where nothing is said. */
function readPssSaltLength(parameters: BerElement | null, digest: SigningDigest): number {
  let named = digestOfOid(DIGESTS.SHA1.oid)
  let mask = named
  let saltLength: number = DIGESTS.SHA1.bytes
  for (const parameter of parameters?.children() ?? []) {
    const value = parameter.children().next()
    if (parameter.tag === contextTag(2, 'constructed')) saltLength = value.smallInteger()
    if (parameter.tag === contextTag(0, 'constructed')) named = digestOfOid(value.children().next().oid())
    if (parameter.tag === contextTag(1, 'constructed')) {
      const mgf = value.children()
      mgf.next(TAG.OBJECT_IDENTIFIER)
      mask = digestOfOid(mgf.next(TAG.SEQUENCE).children().next().oid())
    }
  }
  if (named === null || !isSigningDigest(named) || named !== digest || mask !== digest || saltLength < 0) {
    throw new Refusal('authentication-failed', 'PSS with two different digests is not supported')
  }
  return saltLength
}

/** How node:crypto verifies each scheme, and the kinds of keys that may make it. */
const VERIFICATION = {
  PKCS1: { keys: ['rsa'], padding: constants.RSA_PKCS1_PADDING },
  PSS: { keys: ['rsa', 'rsa-pss'], padding: constants.RSA_PKCS1_PSS_PADDING },
  ECDSA: { keys: ['ec'], padding: null },
} as const satisfies Record<SignatureScheme, { keys: readonly string[]; padding: number | null }>

/** Whether the signature over the bytes is of this key; a key of another kind never is. */
export function isSignedBy(
  key: KeyObject,
  { scheme, digest, saltLength }: SignatureAlgorithm,
  bytes: Buffer,
  signature: Buffer,
): boolean {
  const { keys, padding } = VERIFICATION[scheme]
  if (!keys.some((kind) => kind === key.asymmetricKeyType)) return false
  const salt = scheme === 'PSS' ? { saltLength } : {}
  const options = padding === null ? { key } : { key, padding, ...salt }
  try {
    return verify(DIGESTS[digest].node, bytes, options, signature)
  } catch {
    return false
  }
}
