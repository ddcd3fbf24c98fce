/** Making and checking the signature value of a SignerInfo. */
import { constants, sign, verify } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { algorithmName } from '../algorithm-names.ts'
import { DIGESTS, ECDSA_SIGNATURE_OIDS, MGF1_OID, RSA_SIGNATURE_OID, signatureOfOid } from '../algorithms.ts'
import type { SignatureScheme, SigningDigest } from '../algorithms.ts'
import type { BerElement } from '../asn1/reader.ts'
import { TAG } from '../asn1/tag.ts'
import { algorithmIdentifier, integer, NULL, sequence, tagged } from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import { prepareCertificate } from '../certificate.ts'
import { ComposeError } from '../compose-error.ts'
import { Refusal } from '../refusal.ts'
import { isPssSignedBy, readPssParameters } from './pss.ts'
import type { PssParameters } from './pss.ts'

/** What a message or receipt is signed with. */
export interface Signing {
  readonly algorithm: SigningDigest
  /** The padding of an RSA signature. An EC key makes ECDSA signatures, whatever stands here. */
  readonly scheme: 'PKCS1' | 'PSS'
  /** The signer's, DER; it travels with the signature. */
  readonly certificate: Buffer
  readonly privateKey: KeyObject
}

export interface SignatureAlgorithm {
  readonly scheme: SignatureScheme
  readonly digest: SigningDigest
  /** Null for other schemes. */
  readonly pss: PssParameters | null
}

type KeyWithOptions = KeyObject | { key: KeyObject; padding: number; saltLength: number }

/** Signs in the thread pool of libuv. */
const signInPool = promisify<string, Buffer, KeyWithOptions, Buffer>(sign)

/** @throws ComposeError when the key is neither an RSA nor an EC key, counts for nothing, or cannot sign so */
export async function signBytes(bytes: Buffer, signing: Signing): Promise<Buffer> {
  const { algorithm, privateKey: key, certificate } = signing
  const { unsound } = prepareCertificate(certificate)
  if (unsound !== null) throw new ComposeError(`the certificate cannot sign: ${unsound}`)
  const { node } = DIGESTS[algorithm]
  const isPss = schemeOf(signing) === 'PSS'
  try {
    return await signInPool(node, bytes, isPss ? withPss(key, saltBytes(signing)) : key)
  } catch (thrown) {
    throw new ComposeError(`nothing can be signed with the key and ${algorithm}`, { cause: thrown })
  }
}

/** As long as the digest (RFC 4055 §3.1), or as there is room for in a short key (RFC 8017 §9.1.1). */
function saltBytes({ algorithm, privateKey }: Signing): number {
  const { bytes } = DIGESTS[algorithm]
  const { modulusLength = 0 } = privateKey.asymmetricKeyDetails ?? {}
  return Math.min(bytes, Math.ceil((modulusLength - 1) / 8) - bytes - 2)
}

function schemeOf({ scheme, privateKey }: Signing): SignatureScheme {
  const type = privateKey.asymmetricKeyType
  if (type === 'ec') return 'ECDSA'
  if (type !== 'rsa') throw new ComposeError('signing with a key other than RSA and EC is not supported')
  return scheme
}

/** For PSS all parameters are written (RFC 4056 §2.2), for ECDSA there are none (RFC 5754 §3.3). */
export function formatSignatureAlgorithm(signing: Signing): Der {
  const { algorithm } = signing
  const scheme = schemeOf(signing)
  if (scheme === 'PKCS1') return algorithmIdentifier(RSA_SIGNATURE_OID.PKCS1, NULL)
  if (scheme === 'ECDSA') return algorithmIdentifier(ECDSA_SIGNATURE_OIDS[algorithm])
  const digest = algorithmIdentifier(DIGESTS[algorithm].oid, NULL)
  const parameters = sequence(
    tagged(0, digest),
    tagged(1, algorithmIdentifier(MGF1_OID, digest)),
    tagged(2, integer(saltBytes(signing))),
  )
  return algorithmIdentifier(RSA_SIGNATURE_OID.PSS, parameters)
}

/** @throws Refusal `authentication-failed` for what is unknown or contradicts itself; Asn1Error */
export function readSignatureAlgorithm(algorithm: BerElement, digest: SigningDigest): SignatureAlgorithm {
  const fields = algorithm.children()
  const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const facts = signatureOfOid(oid)
  if (facts === null)
    throw new Refusal('authentication-failed', `signature algorithm ${algorithmName(oid)} is not supported`)
  if (facts.digest !== null && facts.digest !== digest) {
    throw new Refusal('authentication-failed', 'the signature names two different digests')
  }
  if (facts.scheme !== 'PSS') return { scheme: facts.scheme, digest, pss: null }
  return { scheme: 'PSS', digest, pss: readPssParameters(fields.optional(TAG.SEQUENCE), digest) }
}

/** The kinds of keys that may make a signature of each scheme. */
const KEYS: Readonly<Record<SignatureScheme, readonly string[]>> = {
  PKCS1: ['rsa'],
  PSS: ['rsa', 'rsa-pss'],
  ECDSA: ['ec'],
}

/**
 * A key for PSS. For the other schemes the key stands alone: node:crypto takes PKCS #1 v1.5 for an RSA key by itself, and
 * looks several times as long at a key that comes within options.
 */
function withPss(key: KeyObject, saltLength: number): KeyWithOptions {
  return { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength }
}

/** Whether the signature over the bytes is of this key; a key of another kind never is. */
export function isSignedBy(
  key: KeyObject,
  { scheme, digest, pss }: SignatureAlgorithm,
  bytes: Buffer,
  signature: Buffer,
): boolean {
  if (!KEYS[scheme].some((kind) => kind === key.asymmetricKeyType)) return false
  try {
    if (pss !== null && pss.maskDigest !== digest) {
      return isPssSignedBy(key, { ...pss, digest, bytes, signature })
    }
    const options = pss === null ? key : withPss(key, pss.saltLength)
    return verify(DIGESTS[digest].node, bytes, options, signature)
  } catch {
    return false
  }
}
