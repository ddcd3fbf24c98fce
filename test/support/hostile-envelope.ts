import { constants, createCipheriv, publicEncrypt, randomBytes } from 'node:crypto'
import {
  algorithmIdentifier,
  element,
  integer,
  NULL,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  toBuffer,
} from '../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../actors/as2/protocol/certificate.ts'

const OID = {
  data: '1.2.840.113549.1.7.1',
  envelopedData: '1.2.840.113549.1.7.3',
  rsa: '1.2.840.113549.1.1.1',
  aes256Cbc: '2.16.840.1.101.3.4.1.42',
} as const
const BLOCK_BYTES = 16

/** What is wrong with an envelope; null: nothing. */
export type EnvelopeFault = 'bad_padding' | 'wrong_key_length' | 'wrong_key' | null

/** EnvelopedData in AES-256 for an RSA certificate, sound but for one fault that only the key's owner can see. */
export function hostileEnvelope(plain: Buffer, certificate: Buffer, fault: EnvelopeFault): Buffer {
  const { publicKey: key, issuerAndSerialNumber } = prepareCertificate(certificate)
  const contentKey = randomBytes(32)
  const iv = randomBytes(BLOCK_BYTES)
  const cipher = createCipheriv('aes-256-cbc', contentKey, iv).setAutoPadding(false)
  const pad = BLOCK_BYTES - (plain.length % BLOCK_BYTES)
  const padding = Buffer.alloc(pad, pad)
  // A length of zero, and one that none of the octets before it agrees with.
  if (fault === 'bad_padding') padding[pad - 1] = 0
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.update(padding), cipher.final()])
  const transported = fault === 'wrong_key_length' ? contentKey.subarray(0, 16) : contentKey
  const encryptedKey = publicEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, transported)
  if (fault === 'wrong_key') randomBytes(encryptedKey.length - 1).copy(encryptedKey, 1)
  const recipient = sequence(
    integer(0),
    issuerAndSerialNumber,
    algorithmIdentifier(OID.rsa, NULL),
    octetString(encryptedKey),
  )
  const content = sequence(
    objectIdentifier(OID.data),
    algorithmIdentifier(OID.aes256Cbc, octetString(iv)),
    element(0x80, ciphertext),
  )
  const envelope = sequence(integer(0), setOf(recipient), content)
  return toBuffer(sequence(objectIdentifier(OID.envelopedData), tagged(0, envelope)))
}
