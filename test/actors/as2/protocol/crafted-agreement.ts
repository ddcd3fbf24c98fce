/** KeyAgreeRecipientInfo as peers may write it, made from RFC 5753 apart from the code under test. */
import { createCipheriv, createECDH, createHash, randomBytes } from 'node:crypto'
import {
  algorithmIdentifier,
  bitString,
  integer,
  octetString,
  sequence,
  tagged,
  toBuffer,
} from '../../../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../../../actors/as2/protocol/certificate.ts'
import type { TestCertificate } from '../../../support/certificates.ts'
import { envelopedData, OID } from './crafted-cms.ts'

export interface Agreement {
  /** Parameters of the sender's key. */
  readonly curve?: readonly Part[]
  readonly point?: Buffer
  readonly ukm?: Buffer
  readonly wrapParameters?: readonly Part[]
  readonly identifiers?: readonly Part[]
  readonly scheme?: string
  readonly wrap?: string
  readonly originator?: Part
}

function bigEndian(value: number): Buffer {
  const octets = Buffer.alloc(4)
  octets.writeUInt32BE(value)
  return octets
}

/** A message in AES-256-CBC whose key is agreed on by SHA-256 and wrapped with AES-128. */
export function agreedEnvelope(plain: Buffer, receiver: TestCertificate, agreement: Agreement = {}): Buffer {
  const { issuerAndSerialNumber, publicKeyBits } = prepareCertificate(receiver.certificate)
  const ephemeral = createECDH('prime256v1')
  const ownPoint = ephemeral.generateKeys()
  const wrapAlgorithm = algorithmIdentifier(
    agreement.wrap ?? OID.aes128Wrap,
    ...(agreement.wrapParameters ?? []),
  )
  const ukm = agreement.ukm === undefined ? [] : [octetString(agreement.ukm)]
  const sharedInfo = sequence(
    wrapAlgorithm,
    ...ukm.map((part) => tagged(0, part)),
    tagged(2, octetString(bigEndian(128))),
  )
  const secret = ephemeral.computeSecret(publicKeyBits)
  const kek = createHash('sha256')
    .update(Buffer.concat([secret, bigEndian(1), toBuffer(sharedInfo)]))
    .digest()
    .subarray(0, 16)
  const contentKey = randomBytes(32)
  const wrapping = createCipheriv('aes128-wrap', kek, Buffer.alloc(8, 0xa6))
  const encryptedKey = octetString(Buffer.concat([wrapping.update(contentKey), wrapping.final()]))
  const originatorKey = tagged(
    1,
    algorithmIdentifier(OID.ecPublicKey, ...(agreement.curve ?? [])),
    bitString(agreement.point ?? ownPoint),
  )
  const identifiers = agreement.identifiers ?? [issuerAndSerialNumber]
  const recipient = tagged(
    1,
    integer(3),
    tagged(0, agreement.originator ?? originatorKey),
    ...ukm.map((part) => tagged(1, part)),
    algorithmIdentifier(agreement.scheme ?? OID.stdDhSha256, wrapAlgorithm),
    sequence(...identifiers.map((identifier) => sequence(identifier, encryptedKey))),
  )
  const iv = randomBytes(16)
  const cipher = createCipheriv('aes-256-cbc', contentKey, iv)
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()])
  return envelopedData(recipient, { oid: OID.aes256Cbc, parameters: octetString(iv), ciphertext })
}

/** RecipientKeyIdentifier, with a date behind the key identifier. */
export function byKeyIdentifier(keyIdentifier: Buffer): Part {
  return tagged(0, octetString(keyIdentifier), Buffer.from('180f32303236313132313038303030305a', 'hex'))
}
