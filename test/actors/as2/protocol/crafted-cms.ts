/** CMS objects made to order, well formed and not, as other products or attackers make them. */
import { constants, createHash, publicEncrypt, sign } from 'node:crypto'
import { deflateSync } from 'node:zlib'
import {
  algorithmIdentifier,
  bitString,
  element,
  integer,
  NULL,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  toBuffer,
} from '../../../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../../../actors/as2/protocol/certificate.ts'
import type { TestCertificate } from '../../../support/certificates.ts'

export const OID = {
  data: '1.2.840.113549.1.7.1',
  signedData: '1.2.840.113549.1.7.2',
  envelopedData: '1.2.840.113549.1.7.3',
  compressedData: '1.2.840.113549.1.9.16.1.9',
  contentType: '1.2.840.113549.1.9.3',
  messageDigest: '1.2.840.113549.1.9.4',
  sha256: '2.16.840.1.101.3.4.2.1',
  rsa: '1.2.840.113549.1.1.1',
  sha1: '1.3.14.3.2.26',
  mgf1: '1.2.840.113549.1.1.8',
  sha1WithRsa: '1.2.840.113549.1.1.5',
  sha256WithRsa: '1.2.840.113549.1.1.11',
  pss: '1.2.840.113549.1.1.10',
  ecPublicKey: '1.2.840.10045.2.1',
  stdDhSha256: '1.3.132.1.11.1',
  aes128Wrap: '2.16.840.1.101.3.4.1.5',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  tripleDes: '1.2.840.113549.3.7',
  aes256Cbc: '2.16.840.1.101.3.4.1.42',
  aes256Gcm: '2.16.840.1.101.3.4.1.46',
  aes128Gcm: '2.16.840.1.101.3.4.1.6',
  zlib: '1.2.840.113549.1.9.16.3.8',
} as const

function contentInfo(type: string, content: Part): Buffer {
  return toBuffer(sequence(objectIdentifier(type), tagged(0, content)))
}

/** An element of indefinite length. */
function indefinite(tag: number, ...parts: Part[]): Buffer {
  return Buffer.concat([Buffer.from([tag, 0x80]), ...parts.map(toBuffer), Buffer.from([0, 0])])
}

/** An OCTET STRING as Bouncy Castle writes it: constructed, in chunks, of indefinite length. */
function chunked(tag: number, bytes: Buffer): Buffer {
  const chunks: Part[] = []
  for (let at = 0; at < bytes.length; at += 1_000) chunks.push(octetString(bytes.subarray(at, at + 1_000)))
  return indefinite(tag, ...chunks)
}

export function attribute(oid: string, ...values: Part[]): Part {
  return sequence(objectIdentifier(oid), setOf(...values))
}

export function digestOf(content: Buffer): Part {
  return octetString(createHash('sha256').update(content).digest())
}

/** The attributes that a signature over the content must have. */
export function attributesOf(content: Buffer): Part[] {
  return [
    attribute(OID.contentType, objectIdentifier(OID.data)),
    attribute(OID.messageDigest, digestOf(content)),
  ]
}

/** A SignerInfo over the attributes, or over the bytes themselves when they come without attributes. */
export function signerInfo(
  signer: TestCertificate,
  signed: readonly Part[] | Buffer,
  oid: string = OID.rsa,
): Part {
  const bytes = Buffer.isBuffer(signed) ? signed : signedBytes(signed)
  return signerInfoOf(signer, {
    attributes: Buffer.isBuffer(signed) ? [] : signed,
    algorithm: oid === OID.rsa ? algorithmIdentifier(oid, NULL) : algorithmIdentifier(oid),
    signature: sign('sha256', bytes, signer.privateKey),
  })
}

/** The bytes under a signature with attributes. */
export function signedBytes(attributes: readonly Part[]): Buffer {
  return toBuffer(setOf(...attributes))
}

/** A SignerInfo with whatever a test wants in it. */
export function signerInfoOf(
  signer: TestCertificate,
  {
    attributes,
    digest = OID.sha256,
    algorithm,
    signature,
    identifier = prepareCertificate(signer.certificate).issuerAndSerialNumber,
  }: {
    readonly attributes: readonly Part[]
    readonly digest?: string
    readonly algorithm: Part
    readonly signature: Buffer
    /** How the signer is named; default by issuer and serial number. */
    readonly identifier?: Part
  },
): Part {
  const sorted = attributes.map(toBuffer).toSorted((a, b) => a.compare(b))
  return sequence(
    integer(1),
    identifier,
    algorithmIdentifier(digest, NULL),
    ...(attributes.length === 0 ? [] : [element(0xa0, ...sorted)]),
    algorithm,
    octetString(signature),
  )
}

/** SignedData, with the content inside or (null) detached. */
export function signedData(content: Buffer | null, ...signerInfos: Part[]): Buffer {
  return signedDataWith([], content, ...signerInfos)
}

/** The same with certificates (DER) inside. */
export function signedDataWith(
  certificates: readonly Buffer[],
  content: Buffer | null,
  ...signerInfos: Part[]
): Buffer {
  const encapsulated = content === null ? [] : [tagged(0, octetString(content))]
  const data = sequence(
    integer(1),
    setOf(algorithmIdentifier(OID.sha256)),
    sequence(objectIdentifier(OID.data), ...encapsulated),
    ...(certificates.length === 0 ? [] : [tagged(0, ...certificates)]),
    setOf(...signerInfos),
  )
  return contentInfo(OID.signedData, data)
}

export function compressedData(bytes: Buffer): Buffer {
  const content = tagged(0, octetString(deflateSync(bytes)))
  return contentInfo(
    OID.compressedData,
    sequence(integer(0), algorithmIdentifier(OID.zlib), sequence(objectIdentifier(OID.data), content)),
  )
}

export function encryptedKey(recipient: TestCertificate, key: Buffer): Buffer {
  const { publicKey } = prepareCertificate(recipient.certificate)
  return publicEncrypt({ key: publicKey, padding: constants.RSA_PKCS1_PADDING }, key)
}

export function recipientInfo(recipient: TestCertificate, keyBytes: Buffer): Part {
  return sequence(
    integer(0),
    prepareCertificate(recipient.certificate).issuerAndSerialNumber,
    algorithmIdentifier(OID.rsa, NULL),
    octetString(keyBytes),
  )
}

/** A recipient by key agreement, known by a key identifier. */
const SOMEBODY_ELSE = tagged(
  1,
  integer(3),
  tagged(0, tagged(1, algorithmIdentifier(OID.ecPublicKey), bitString(Buffer.alloc(65, 4)))),
  algorithmIdentifier(OID.stdDhSha256, algorithmIdentifier(OID.aes128Wrap)),
  sequence(sequence(tagged(0, octetString(Buffer.alloc(20, 7))), octetString(Buffer.alloc(24)))),
)

/**
 * EnvelopedData of indefinite lengths and chunked content. A recipient by key agreement, which is not ours,
 * stands first.
 */
export function envelopedData(
  recipient: Part,
  { oid, parameters, ciphertext }: { oid: string; parameters: Part; ciphertext: Buffer },
): Buffer {
  const algorithm = algorithmIdentifier(oid, parameters)
  const info = indefinite(0x30, objectIdentifier(OID.data), algorithm, chunked(0xa0, ciphertext))
  const data = indefinite(0x30, integer(2), element(0x31, SOMEBODY_ELSE, recipient), info)
  return indefinite(0x30, objectIdentifier(OID.envelopedData), indefinite(0xa0, data))
}
