/** A signed entity of nobody, on which the work of verifying is done where a message does not come to it. */
import { randomBytes } from 'node:crypto'
import { DIGESTS, ECDSA_SIGNATURE_OIDS, RSA_SIGNATURE_OID } from './algorithms.ts'
import type { SigningDigest } from './algorithms.ts'
import { contextTag } from './asn1/tag.ts'
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
  time,
  toBuffer,
} from './asn1/writer.ts'
import type { Der, Part } from './asn1/writer.ts'
import { encodeBase64 } from './base64.ts'
import { prepareCertificate } from './certificate.ts'
import type { PreparedCertificate } from './certificate.ts'
import { formatContentInfo } from './cms/content-info.ts'
import { ATTRIBUTE, CONTENT_TYPE } from './cms/oids.ts'
import type { SignedData } from './cms/signed-data.ts'
import type { Verification } from './cms/verification.ts'
import { parseEntity } from './mime.ts'
import type { Entity } from './mime.ts'
import { readSignature } from './multipart-signed.ts'

/** In the form of the messages of a partner. */
export interface Decoy {
  /** What stands before the signed content. */
  readonly head: Buffer
  /** What stands behind it. */
  readonly tail: Buffer
  readonly signaturePart: Entity
  readonly signature: SignedData
}

/** The digests that partners signed with last, by certificate: a decoy is made with the same. */
const digests = new WeakMap<Buffer, SigningDigest>()
const decoys = new WeakMap<Buffer, { readonly digest: SigningDigest; readonly decoy: Decoy }>()
/** For a partner without a certificate; it stands for its own. */
const NOBODY = Buffer.alloc(0)

/** Takes note of a good signature. */
export function rememberSignature({ signer, digest }: Verification): void {
  for (const certificate of signer.certificates) digests.set(certificate, digest)
}

/** A decoy that costs as much as a message of the first of the signers. */
export function decoyFor([signer = NOBODY]: readonly Buffer[]): Decoy {
  const digest = digests.get(signer) ?? 'SHA256'
  const known = decoys.get(signer)
  if (known?.digest === digest) return known.decoy
  const decoy = makeDecoy(signer === NOBODY ? null : prepareCertificate(signer), digest)
  decoys.set(signer, { digest, decoy })
  return decoy
}

const BOUNDARY = `=_${randomBytes(16).toString('hex')}`

function makeDecoy(signer: PreparedCertificate | null, digest: SigningDigest): Decoy {
  const head = [
    `Content-Type: multipart/signed; protocol="application/pkcs7-signature"; micalg=sha-256; boundary="${BOUNDARY}"`,
    '',
    `--${BOUNDARY}`,
    'Content-Type: application/octet-stream',
    'Content-Transfer-Encoding: binary',
    'Content-Disposition: attachment; filename="decoy"',
    '',
    '',
  ]
  const part = [
    'Content-Type: application/pkcs7-signature; name="smime.p7s"',
    'Content-Transfer-Encoding: base64',
    'Content-Disposition: attachment; filename="smime.p7s"',
    '',
    encodeBase64(signatureOf(signer, digest)).toString('latin1'),
  ]
  const signaturePart = parseEntity(Buffer.from(part.join('\r\n'), 'latin1'), 'part')
  const tail = ['', `--${BOUNDARY}`, ...part, `--${BOUNDARY}--`, '']
  return {
    head: Buffer.from(head.join('\r\n'), 'latin1'),
    tail: Buffer.from(tail.join('\r\n'), 'latin1'),
    signaturePart,
    signature: readSignature(signaturePart),
  }
}

/** A SignedData in the form of the partner's own, with values that no key made. */
function signatureOf(signer: PreparedCertificate | null, digest: SigningDigest): Buffer {
  const { oid, bytes } = DIGESTS[digest]
  const digestAlgorithm = algorithmIdentifier(oid)
  const attributes = [
    attribute(ATTRIBUTE.contentType, objectIdentifier(CONTENT_TYPE.data)),
    attribute(ATTRIBUTE.signingTime, time(new Date(0))),
    attribute(ATTRIBUTE.messageDigest, octetString(randomBytes(bytes))),
  ]
  const { algorithm, value } = valueFor(signer, digest)
  const name = signer?.issuerAndSerialNumber ?? toBuffer(sequence(sequence(), integer(1)))
  const signerInfo = sequence(
    integer(1),
    name,
    digestAlgorithm,
    element(contextTag(0, 'constructed'), ...attributes.map(toBuffer).toSorted((a, b) => a.compare(b))),
    algorithm,
    octetString(value),
  )
  const certificates = signer === null ? [] : [tagged(0, signer.der)]
  const encapsulated = sequence(objectIdentifier(CONTENT_TYPE.data))
  return formatContentInfo(
    CONTENT_TYPE.signedData,
    sequence(integer(1), setOf(digestAlgorithm), encapsulated, ...certificates, setOf(signerInfo)),
  )
}

function attribute(oid: string, value: Part): Der {
  return sequence(objectIdentifier(oid), setOf(value))
}

/** A value of the right size and range, so that it is really computed with before it is found wrong. */
function valueFor(
  signer: PreparedCertificate | null,
  digest: SigningDigest,
): { readonly algorithm: Der; readonly value: Buffer } {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = signer?.publicKey ?? {}
  if (type === 'ec') {
    const value = toBuffer(sequence(integer(randomBytes(27)), integer(randomBytes(27))))
    return { algorithm: algorithmIdentifier(ECDSA_SIGNATURE_OIDS[digest]), value }
  }
  // The first octet is zero, so that the number is less than any modulus of this length.
  const value = Buffer.concat([Buffer.alloc(1), randomBytes((details?.modulusLength ?? 2048) / 8 - 1)])
  return { algorithm: algorithmIdentifier(RSA_SIGNATURE_OID.PKCS1, NULL), value }
}
