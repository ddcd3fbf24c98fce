/** KeyTransRecipientInfo (RFC 5652 §6.2.1): the content key under the recipient's RSA key. */
import { constants, privateDecrypt, publicEncrypt } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { DIGESTS, digestOfOid, KEY_TRANSPORTS, keyTransportOfOid, MGF1_OID } from '../algorithms.ts'
import type { DigestName, KeyTransport } from '../algorithms.ts'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import { algorithmIdentifier, integer, NULL, octetString, sequence, tagged } from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import { matchesIdentifier, prepareCertificate } from '../certificate.ts'
import { ComposeError } from '../compose-error.ts'
import { Refusal } from '../refusal.ts'
import { readCertificateIdentifier } from './certificate-identifier.ts'

/** A key that may open messages, with its certificate in DER. */
export interface DecryptionKey {
  readonly certificate: Buffer
  readonly privateKey: KeyObject
}

/** How the content key of a message is encrypted. */
type Transport =
  | { readonly name: 'PKCS1' }
  | { readonly name: 'OAEP'; readonly digest: DigestName; readonly label: Buffer | null }

/** The recipient of a message that we hold the key of. */
export interface Recipient {
  readonly key: DecryptionKey
  readonly transport: Transport
  readonly encryptedKey: Buffer
}

/** The digest of OAEP that we write, for the label and for MGF1. */
const OAEP_DIGEST: DigestName = 'SHA256'
const MAX_RECIPIENTS = 100

/** @throws ComposeError when the certificate (DER) has no RSA key */
export function formatRecipient(contentKey: Buffer, certificate: Buffer, transport: KeyTransport): Der {
  const { publicKey: key, issuerAndSerialNumber } = prepareCertificate(certificate)
  if (key.asymmetricKeyType !== 'rsa') {
    throw new ComposeError('encryption to a certificate without an RSA key is not supported')
  }
  const { oid } = KEY_TRANSPORTS[transport]
  if (transport === 'PKCS1') {
    const encryptedKey = publicEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, contentKey)
    const algorithm = algorithmIdentifier(oid, NULL)
    return sequence(integer(0), issuerAndSerialNumber, algorithm, octetString(encryptedKey))
  }
  const { node: oaepHash, oid: digestOid } = DIGESTS[OAEP_DIGEST]
  const padding = constants.RSA_PKCS1_OAEP_PADDING
  const encryptedKey = publicEncrypt({ key, padding, oaepHash }, contentKey)
  // RSAES-OAEP-params (RFC 8017 A.2.1)
  const digest = algorithmIdentifier(digestOid, NULL)
  const parameters = sequence(tagged(0, digest), tagged(1, algorithmIdentifier(MGF1_OID, digest)))
  const algorithm = algorithmIdentifier(oid, parameters)
  return sequence(integer(0), issuerAndSerialNumber, algorithm, octetString(encryptedKey))
}

/**
 * The first recipient whose certificate is among ours. Only KeyTransRecipientInfo is a plain SEQUENCE; the
 * other kinds are passed over.
 * @throws Refusal when none is, Asn1Error
 */
export function findRecipient(recipients: BerElement, keys: readonly DecryptionKey[]): Recipient {
  let count = 0
  for (const each of recipients.children()) {
    if (++count > MAX_RECIPIENTS)
      throw new Refusal('decryption-failed', 'the message names too many recipients')
    if (each.tag !== TAG.SEQUENCE) continue
    const fields = each.children()
    fields.next(TAG.INTEGER)
    const identifier = readCertificateIdentifier(fields.next())
    const key = keys.find(({ certificate }) => matchesIdentifier(prepareCertificate(certificate), identifier))
    if (key === undefined) continue
    const transport = readTransport(fields.next(TAG.SEQUENCE))
    return { key, transport, encryptedKey: fields.next(TAG.OCTET_STRING).octets() }
  }
  throw new Refusal('decryption-failed', 'the message is not encrypted to any of our decryption certificates')
}

function readTransport(algorithm: BerElement): Transport {
  const fields = algorithm.children()
  const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const name = keyTransportOfOid(oid)
  if (name === null) throw new Refusal('decryption-failed', `key transport ${oid} is not supported`)
  if (name === 'PKCS1') return { name }
  let digest: DigestName | null = 'SHA1'
  let maskDigest: DigestName | null = 'SHA1'
  let label: Buffer | null = null
  for (const parameter of fields.optional(TAG.SEQUENCE)?.children() ?? []) {
    const value = parameter.children().next(TAG.SEQUENCE).children()
    const valueOid = value.next(TAG.OBJECT_IDENTIFIER).oid()
    if (parameter.tag === contextTag(0, 'constructed')) digest = digestOfOid(valueOid)
    if (parameter.tag === contextTag(1, 'constructed')) {
      maskDigest = digestOfOid(value.next(TAG.SEQUENCE).children().next(TAG.OBJECT_IDENTIFIER).oid())
    }
    if (parameter.tag === contextTag(2, 'constructed')) label = value.next(TAG.OCTET_STRING).octets()
  }
  if (digest === null || digest !== maskDigest) {
    throw new Refusal('decryption-failed', 'OAEP with two different digests is not supported')
  }
  return { name, digest, label }
}

/**
 * The content key, or null when it cannot be unwrapped. With PKCS #1 v1.5 a wrong padding gives a random key
 * instead (implicit rejection by OpenSSL).
 */
export function unwrapContentKey({ key, transport, encryptedKey }: Recipient): Buffer | null {
  const { privateKey } = key
  try {
    if (transport.name === 'PKCS1') {
      return privateDecrypt({ key: privateKey, padding: constants.RSA_PKCS1_PADDING }, encryptedKey)
    }
    const padding = constants.RSA_PKCS1_OAEP_PADDING
    const oaepHash = DIGESTS[transport.digest].node
    const label = transport.label === null ? {} : { oaepLabel: Buffer.from(transport.label) }
    return privateDecrypt({ key: privateKey, padding, oaepHash, ...label }, encryptedKey)
  } catch {
    return null
  }
}
