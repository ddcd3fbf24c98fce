/** multipart/signed with a detached CMS signature (RFC 1847, RFC 8551 §3.5.3), of messages and receipts. */
import { encodeBase64 } from './base64.ts'
import { CONTENT_TYPE } from './cms/oids.ts'
import { readContentInfo } from './cms/content-info.ts'
import type { Signing } from './cms/signature.ts'
import { formatDetachedSignature, readSignedData } from './cms/signed-data.ts'
import type { SignedData } from './cms/signed-data.ts'
import { verifySignature } from './cms/verification.ts'
import type { Verification } from './cms/verification.ts'
import type { HeaderList } from '../../../runtime/mime/headers.ts'
import { digest, micalgOf, micOfDigest } from './mic.ts'
import type { Mic, MicalgFormat } from './mic.ts'
import { MAKING } from './making.ts'
import type { Making } from './making.ts'
import { cmsBytes, MimeError, parseEntity, splitMultipart, toCrlf } from './mime.ts'
import type { Entity } from './mime.ts'
import { Refusal } from './refusal.ts'

export interface SignedEntity {
  readonly headers: HeaderList
  readonly body: Buffer
  /** Over the signed part. */
  readonly mic: Mic
}

/** How a part is signed. */
export interface PartSigning {
  readonly signing: Signing
  readonly signingTime: Date
  /** How `micalg` spells the digest. */
  readonly micalgFormat?: MicalgFormat | undefined
}

/** A multipart/signed entity around a part that need not be known before. */
export interface SignedFrame {
  readonly headers: HeaderList
  readonly opening: Buffer
  /** What comes after the part of the digest. */
  readonly close: (messageDigest: Buffer) => Promise<Buffer>
}

/** Signs a part: its bytes with headers. The signature travels as base64, which every product reads. */
export async function formatMultipartSigned(
  part: Buffer,
  signing: PartSigning,
  making: Pick<Making, 'randomness'> = MAKING,
): Promise<SignedEntity> {
  const { algorithm } = signing.signing
  const { headers, opening, close } = startMultipartSigned(signing, making)
  const messageDigest = digest(algorithm, part)
  return {
    headers,
    body: Buffer.concat([opening, part, await close(messageDigest)]),
    mic: micOfDigest(algorithm, messageDigest),
  }
}

export function startMultipartSigned(
  { signing, signingTime, micalgFormat }: PartSigning,
  { randomness }: Pick<Making, 'randomness'>,
): SignedFrame {
  const boundary = randomness.boundary()
  const micalg = micalgOf(signing.algorithm, micalgFormat)
  const type = `multipart/signed; protocol="application/pkcs7-signature"; micalg=${micalg}; boundary="${boundary}"`
  const close = async (messageDigest: Buffer): Promise<Buffer> => {
    const signature = await randomness.signature(messageDigest, () =>
      formatDetachedSignature(messageDigest, signing, signingTime),
    )
    const rest = [
      `\r\n--${boundary}`,
      'Content-Type: application/pkcs7-signature; name="smime.p7s"',
      'Content-Transfer-Encoding: base64',
      'Content-Disposition: attachment; filename="smime.p7s"',
      '',
      encodeBase64(signature).toString('latin1'),
      `--${boundary}--`,
      '',
    ].join('\r\n')
    return Buffer.from(rest, 'latin1')
  }
  return { headers: [['Content-Type', type]], opening: Buffer.from(`--${boundary}\r\n`, 'latin1'), close }
}

/**
 * Verifies a multipart/signed entity and gives its signed part.
 * @throws Refusal, MimeError, Asn1Error
 */
export function openMultipartSigned(
  entity: Entity,
  signers: readonly Buffer[],
): { part: Entity; verification: Verification } {
  const { part, signature } = partsOfSigned(entity)
  return { part, verification: verifySignature(readSignature(signature), formsOf(part), signers) }
}

/** @throws MimeError */
export function partsOfSigned(entity: Entity): { part: Entity; signature: Entity } {
  const contentType = entity.headers.get('content-type') ?? ''
  const [signedPart, signaturePart, ...others] = splitMultipart(contentType, entity.body, 3)
  if (signedPart === undefined || signaturePart === undefined || others.length > 0) {
    throw new MimeError('multipart/signed must have two parts')
  }
  return { part: parseEntity(signedPart, 'part'), signature: parseEntity(signaturePart, 'part') }
}

/** @throws Refusal, Asn1Error */
export function readSignature(signature: Entity): SignedData {
  const { contentType, content } = readContentInfo(cmsBytes(signature))
  if (contentType === CONTENT_TYPE.signedData) return readSignedData(content)
  throw new Refusal('authentication-failed', 'the second part of multipart/signed is not a signature')
}

/**
 * The forms in which a signer may have seen what we received: as it is, then with line ends made CRLF, then with
 * those of the headers alone, since some products sign a body with lone LFs untouched. Always three, also when they are
 * the same: what fails takes as long whatever the bytes are.
 */
export function* formsOf(part: Entity): Generator<Buffer> {
  yield part.raw
  yield toCrlf(part.raw)
  const headers = part.raw.subarray(0, part.raw.length - part.body.length)
  yield Buffer.concat([toCrlf(headers), part.body])
}
