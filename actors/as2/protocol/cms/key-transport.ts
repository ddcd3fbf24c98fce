/** KeyTransRecipientInfo (RFC 5652 §6.2.1): the content key under the recipient's RSA key. */
import { constants, publicEncrypt } from 'node:crypto'
import { algorithmName } from '../algorithm-names.ts'
import { DIGESTS, digestOfOid, KEY_TRANSPORTS, keyTransportOfOid, MGF1_OID } from '../algorithms.ts'
import type { DigestName } from '../algorithms.ts'
import type { BerElement, BerReader } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import { algorithmIdentifier, integer, NULL, octetString, sequence, tagged } from '../asn1/writer.ts'
import type { Der } from '../asn1/writer.ts'
import type { PreparedCertificate } from '../certificate.ts'
import { Refusal } from '../refusal.ts'
import type { DecryptionKey, Encryption } from './encryption-keys.ts'
import { decodeOaep } from './oaep.ts'
import type { RsaDecryption } from './rsa-decryption.ts'

/** How the content key of a message is encrypted. */
type Transport =
  | { readonly method: 'PKCS1' }
  | {
      readonly method: 'OAEP'
      readonly digest: DigestName
      readonly maskDigest: DigestName
      readonly label: Buffer
    }

export type TransportedKey = Transport & { readonly key: DecryptionKey; readonly encryptedKey: Buffer }

/** For OAEP, the digest that serves for the label and for MGF1 is written for both (RFC 4055 §4.1). */
export function formatKeyTransport(
  contentKey: Buffer,
  { publicKey: key, issuerAndSerialNumber }: PreparedCertificate,
  { keyTransport, oaepDigest = 'SHA256' }: Pick<Encryption, 'keyTransport' | 'oaepDigest'>,
): Der {
  const { oid } = KEY_TRANSPORTS[keyTransport]
  if (keyTransport === 'PKCS1') {
    const encryptedKey = publicEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, contentKey)
    const algorithm = algorithmIdentifier(oid, NULL)
    return sequence(integer(0), issuerAndSerialNumber, algorithm, octetString(encryptedKey))
  }
  const { node: oaepHash, oid: digestOid } = DIGESTS[oaepDigest]
  const padding = constants.RSA_PKCS1_OAEP_PADDING
  const encryptedKey = publicEncrypt({ key, padding, oaepHash }, contentKey)
  // RSAES-OAEP-params (RFC 8017 A.2.1)
  const digest = algorithmIdentifier(digestOid, NULL)
  const parameters = sequence(tagged(0, digest), tagged(1, algorithmIdentifier(MGF1_OID, digest)))
  const algorithm = algorithmIdentifier(oid, parameters)
  return sequence(integer(0), issuerAndSerialNumber, algorithm, octetString(encryptedKey))
}

/**
 * Reads what follows the recipient's identifier, for each of the keys that it may mean.
 * @throws Refusal `decryption-failed` for what is not supported; Asn1Error
 */
export function readKeyTransport(fields: BerReader, keys: readonly DecryptionKey[]): TransportedKey[] {
  const transport = readTransport(fields.next(TAG.SEQUENCE))
  const encryptedKey = fields.next(TAG.OCTET_STRING).octets()
  return keys.map((key) => ({ ...transport, key, encryptedKey }))
}

function readTransport(algorithm: BerElement): Transport {
  const fields = algorithm.children()
  const oid = fields.next(TAG.OBJECT_IDENTIFIER).oid()
  const method = keyTransportOfOid(oid)
  if (method === null) {
    throw new Refusal('decryption-failed', `key transport ${algorithmName(oid)} is not supported`)
  }
  if (method === 'PKCS1') return { method }
  const said = {
    digest: DIGESTS.SHA1.oid as string,
    mask: DIGESTS.SHA1.oid as string,
    label: Buffer.alloc(0),
  }
  for (const parameter of fields.optional(TAG.SEQUENCE)?.children() ?? []) {
    const value = parameter.children().next(TAG.SEQUENCE).children()
    const valueOid = value.next(TAG.OBJECT_IDENTIFIER).oid()
    if (parameter.tag === contextTag(0, 'constructed')) said.digest = valueOid
    if (parameter.tag === contextTag(1, 'constructed')) {
      said.mask = value.next(TAG.SEQUENCE).children().next(TAG.OBJECT_IDENTIFIER).oid()
    }
    if (parameter.tag === contextTag(2, 'constructed')) {
      said.label = Buffer.from(value.next(TAG.OCTET_STRING).octets())
    }
  }
  return { method, digest: digestNamed(said.digest), maskDigest: digestNamed(said.mask), label: said.label }
}

function digestNamed(oid: string): DigestName {
  const digest = digestOfOid(oid)
  if (digest !== null) return digest
  throw new Refusal('decryption-failed', `OAEP with the digest ${algorithmName(oid)} is not supported`)
}

/**
 * The content key, or null when it cannot be unwrapped. With PKCS #1 v1.5 a wrong padding gives a random key instead
 * (implicit rejection by OpenSSL).
 */
export async function unwrapTransportedKey(
  transported: TransportedKey,
  decrypt: RsaDecryption,
): Promise<Uint8Array | null> {
  const { encryptedKey, key: keyPair } = transported
  const { privateKey: key } = keyPair
  if (transported.method === 'PKCS1') {
    return decrypt({ key, padding: constants.RSA_PKCS1_PADDING }, encryptedKey)
  }
  const { digest, maskDigest, label } = transported
  if (digest === maskDigest) {
    const padding = constants.RSA_PKCS1_OAEP_PADDING
    const oaepLabel = label.length === 0 ? {} : { oaepLabel: label }
    return decrypt({ key, padding, oaepHash: DIGESTS[digest].node, ...oaepLabel }, encryptedKey)
  }
  const encoded = await decrypt({ key, padding: constants.RSA_NO_PADDING }, encryptedKey)
  return encoded === null ? null : decodeOaep(Buffer.from(encoded), { digest, maskDigest, label })
}
