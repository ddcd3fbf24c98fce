/** KeyAgreeRecipientInfo (RFC 5652 §6.2.2) by ephemeral-static ECDH (RFC 5753 §3.1): the content key for an EC key. */
import {
  createCipheriv,
  createDecipheriv,
  createECDH,
  createPublicKey,
  diffieHellman,
  hash,
} from 'node:crypto'
import { algorithmName } from '../algorithm-names.ts'
import type { CipherName } from '../algorithms.ts'
import type { BerElement, BerReader } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import {
  algorithmIdentifier,
  bitString,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  tagged,
  toBuffer,
} from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import { prepareCertificate } from '../certificate.ts'
import type { CertificateIdentifier, PreparedCertificate } from '../certificate.ts'
import { ComposeError } from '../compose-error.ts'
import {
  agreementFor,
  CURVES,
  derivationOfOid,
  derivationOid,
  EC_PUBLIC_KEY_OID,
  isCurve,
  KEY_WRAPS,
  keyWrapOfOid,
} from '../key-agreement-algorithms.ts'
import type { CurveName, DerivationDigest, KeyWrap } from '../key-agreement-algorithms.ts'
import { Refusal } from '../refusal.ts'
import { readCertificateIdentifier } from './certificate-identifier.ts'
import type { DecryptionKey } from './encryption-keys.ts'

export interface AgreedKey {
  readonly method: 'ECDH'
  readonly key: DecryptionKey
  /** The sender's ephemeral public key, as the point stands in the message. */
  readonly point: Buffer
  readonly derivation: DerivationDigest
  readonly wrap: KeyWrap
  /** The AlgorithmIdentifier of the wrap as it stands in the message: it goes into the derivation. */
  readonly wrapAlgorithm: Buffer
  /** The user keying material, which the sender may add. */
  readonly ukm: Buffer | null
  readonly encryptedKey: Buffer
}

/** @throws ComposeError when the key is not on a curve */
export function formatKeyAgreement(
  contentKey: Buffer,
  { publicKey, publicKeyBits, issuerAndSerialNumber }: PreparedCertificate,
  cipher: CipherName,
): Der {
  const { derivation, wrap } = agreementFor(cipher)
  const ephemeral = createECDH(curveOf(publicKey.asymmetricKeyDetails?.namedCurve))
  const point = ephemeral.generateKeys()
  const secret = ephemeral.computeSecret(publicKeyBits)
  const { oid, node, iv } = KEY_WRAPS[wrap]
  // The parameters of the AES key wrap are absent (RFC 3565 §2.3.2).
  const wrapAlgorithm = toBuffer(algorithmIdentifier(oid))
  const wrapping = createCipheriv(node, wrapKey(secret, { derivation, wrap, wrapAlgorithm, ukm: null }), iv)
  const encryptedKey = Buffer.concat([wrapping.update(contentKey), wrapping.final()])
  // The parameters of the originator's key are absent: they are those of the recipient's (RFC 5753 §3.1.1).
  const originatorKey = tagged(1, algorithmIdentifier(EC_PUBLIC_KEY_OID), bitString(point))
  return tagged(
    1,
    integer(3),
    tagged(0, originatorKey),
    algorithmIdentifier(derivationOid(derivation), wrapAlgorithm),
    sequence(sequence(issuerAndSerialNumber, octetString(encryptedKey))),
  )
}

function curveOf(name: string | undefined): CurveName {
  if (isCurve(name)) return name
  throw new ComposeError('encryption to a key on an unknown curve is not supported')
}

/** An encrypted key of the recipient info, and for whom it is. */
export interface AgreementRecipient {
  readonly identifier: CertificateIdentifier
  /** Reads the rest for the keys that it may mean, which are one at least. */
  readonly agreed: (keys: readonly DecryptionKey[]) => AgreedKey[]
}

/** @throws Asn1Error */
export function* readKeyAgreement(info: BerElement): Generator<AgreementRecipient> {
  const fields = info.children()
  fields.next(TAG.INTEGER)
  const originator = fields.next(contextTag(0, 'constructed')).children().next()
  const ukm =
    fields.optional(contextTag(1, 'constructed'))?.children().next(TAG.OCTET_STRING).octets() ?? null
  const algorithm = fields.next(TAG.SEQUENCE)
  for (const each of fields.next(TAG.SEQUENCE).children()) {
    const recipient = each.children()
    const identifier = readRecipientIdentifier(recipient.next())
    const encryptedKey = recipient.next(TAG.OCTET_STRING).octets()
    const agreed = (keys: readonly DecryptionKey[]): AgreedKey[] => {
      const { point, onItsCurve } = readPoint(originator, keys)
      const facts = {
        method: 'ECDH',
        point,
        ...readAlgorithm(algorithm.children()),
        ukm,
        encryptedKey,
      } as const
      return onItsCurve.map((key) => Object.assign({ key }, facts))
    }
    yield { identifier, agreed }
  }
}

/** KeyAgreeRecipientIdentifier: rKeyId is a SEQUENCE, with date and other attributes after the identifier. */
function readRecipientIdentifier(identifier: BerElement): CertificateIdentifier {
  if (identifier.tag !== contextTag(0, 'constructed')) return readCertificateIdentifier(identifier)
  const subjectKeyIdentifier = identifier.children().next(TAG.OCTET_STRING).octets()
  return { by: 'subject-key-identifier', subjectKeyIdentifier }
}

/** OriginatorPublicKey: the curve is absent, NULL, or named as ours is (RFC 5753 §3.1.1). */
function readPoint(
  originator: BerElement,
  keys: readonly DecryptionKey[],
): { readonly point: Buffer; readonly onItsCurve: readonly DecryptionKey[] } {
  if (originator.tag !== contextTag(1, 'constructed')) {
    throw new Refusal('decryption-failed', "key agreement with the sender's certificate is not supported")
  }
  const fields = originator.children()
  const algorithm = fields.next(TAG.SEQUENCE).children()
  const oid = algorithm.next(TAG.OBJECT_IDENTIFIER).oid()
  const parameters = algorithm.atEnd ? null : algorithm.next()
  const isNamed = parameters !== null && parameters.tag !== TAG.NULL
  const named = isNamed ? oidOf(parameters) : null
  const onItsCurve = keys.filter(({ certificate }) => {
    const { namedCurve } = prepareCertificate(certificate).publicKey.asymmetricKeyDetails ?? {}
    return isCurve(namedCurve) && (!isNamed || named === CURVES[namedCurve].oid)
  })
  if (oid !== EC_PUBLIC_KEY_OID || onItsCurve.length === 0) {
    throw new Refusal(
      'decryption-failed',
      "the sender's key for this message is not on the curve of our certificate",
    )
  }
  return { point: fields.next(TAG.BIT_STRING).contents.subarray(1), onItsCurve }
}

function oidOf(parameters: BerElement): string | null {
  return parameters.tag === TAG.OBJECT_IDENTIFIER ? parameters.oid() : null
}

function readAlgorithm(fields: BerReader): Pick<AgreedKey, 'derivation' | 'wrap' | 'wrapAlgorithm'> {
  const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const derivation = derivationOfOid(oid)
  if (derivation === null) {
    throw new Refusal('decryption-failed', `key agreement ${algorithmName(oid)} is not supported`)
  }
  const { raw: wrapAlgorithm, ...algorithm } = readWrap(fields.next(TAG.SEQUENCE))
  const wrap = keyWrapOfOid(algorithm.oid)
  if (wrap === null) {
    throw new Refusal('decryption-failed', `key wrap ${algorithmName(algorithm.oid)} is not supported`)
  }
  return { derivation, wrap, wrapAlgorithm }
}

function readWrap(algorithm: BerElement): { readonly oid: string; readonly raw: Buffer } {
  return { oid: algorithm.children().next(TAG.OBJECT_IDENTIFIER).oid(), raw: algorithm.raw }
}

/**
 * The content key, or null when it cannot be unwrapped. A point that is not on the curve is refused by node:crypto, so
 * that it tells nothing of our key.
 */
export function unwrapAgreedKey(agreed: AgreedKey): Buffer | null {
  const { key, point, wrap, encryptedKey } = agreed
  const { namedCurve } = key.privateKey.asymmetricKeyDetails ?? {}
  if (!isCurve(namedCurve)) return null
  const algorithm = algorithmIdentifier(EC_PUBLIC_KEY_OID, objectIdentifier(CURVES[namedCurve].oid))
  const publicKeyInfo = toBuffer(sequence(algorithm, bitString(point)))
  try {
    const publicKey = createPublicKey({ key: publicKeyInfo, format: 'der', type: 'spki' })
    const secret = diffieHellman({ privateKey: key.privateKey, publicKey })
    const { node, iv } = KEY_WRAPS[wrap]
    const unwrapping = createDecipheriv(node, wrapKey(secret, agreed), iv)
    return Buffer.concat([unwrapping.update(encryptedKey), unwrapping.final()])
  } catch {
    return null
  }
}

/** The X9.63 key derivation (SEC 1 §3.6.1) over ECC-CMS-SharedInfo (RFC 5753 §7.2). */
function wrapKey(
  secret: Buffer,
  { derivation, wrap, wrapAlgorithm, ukm }: Pick<AgreedKey, 'derivation' | 'wrap' | 'wrapAlgorithm' | 'ukm'>,
): Buffer {
  const { keyBytes } = KEY_WRAPS[wrap]
  const keyInfo = ukm === null ? [wrapAlgorithm] : [wrapAlgorithm, tagged(0, octetString(ukm))]
  const sharedInfo = toBuffer(sequence(...keyInfo, tagged(2, octetString(bigEndian(8 * keyBytes)))))
  const blocks: Buffer[] = []
  let length = 0
  for (let counter = 1; length < keyBytes; counter++) {
    const block = hash(derivation, Buffer.concat([secret, bigEndian(counter), sharedInfo]), 'buffer')
    blocks.push(block)
    length += block.length
  }
  return Buffer.concat(blocks).subarray(0, keyBytes)
}

function bigEndian(value: number): Buffer {
  const octets = Buffer.alloc(4)
  octets.writeUInt32BE(value)
  return octets
}
