/** multipart/signed with a detached CMS signature (RFC 1847, RFC 8551 §3.5.3), of messages and receipts. */
import { randomBytes } from 'node:crypto'
import { DIGESTS } from './algorithms.ts'
import { CONTENT_TYPE } from './cms/oids.ts'
import { readContentInfo } from './cms/content-info.ts'
import type { Signing } from './cms/signature.ts'
import { formatDetachedSignature, readSignedData } from './cms/signed-data.ts'
import { verifySignature } from './cms/verification.ts'
import type { Verification } from './cms/verification.ts'
import type { HeaderList } from './headers.ts'
import { digest, micOfDigest } from './mic.ts'
import type { Mic } from './mic.ts'
import { cmsBytes, MimeError, parseEntity, splitMultipart, toCrlf } from './mime.ts'
import type { Entity } from './mime.ts'
import { Refusal } from './refusal.ts'

const BASE64_LINE_CHARACTERS = 76

export interface SignedEntity {
  readonly headers: HeaderList
  readonly body: Buffer
  /** Over the signed part. */
  readonly mic: Mic
}

/** A boundary that occurs in no content but by an accident of 128 bits. */
export function newBoundary(): string {
  return `=_${randomBytes(16).toString('hex')}`
}

/** Signs a part: its bytes with headers. The signature travels as base64, which every product reads. */
export async function formatMultipartSigned(
  part: Buffer,
  signing: Signing,
  signingTime: Date,
): Promise<SignedEntity> {
  const { algorithm } = signing
  const messageDigest = digest(algorithm, part)
  const signature = await formatDetachedSignature(messageDigest, signing, signingTime)
  const boundary = newBoundary()
  const opening = Buffer.from(`--${boundary}\r\n`, 'latin1')
  const rest = [
    `\r\n--${boundary}`,
    'Content-Type: application/pkcs7-signature; name="smime.p7s"',
    'Content-Transfer-Encoding: base64',
    'Content-Disposition: attachment; filename="smime.p7s"',
    '',
    ...base64Lines(signature),
    `--${boundary}--`,
    '',
  ].join('\r\n')
  const { micalg } = DIGESTS[algorithm]
  const type = `multipart/signed; protocol="application/pkcs7-signature"; micalg=${micalg}; boundary="${boundary}"`
  return {
    headers: [['Content-Type', type]],
    body: Buffer.concat([opening, part, Buffer.from(rest, 'latin1')]),
    mic: micOfDigest(algorithm, messageDigest),
  }
}

function base64Lines(bytes: Buffer): string[] {
  const text = bytes.toString('base64')
  const lines: string[] = []
  for (let at = 0; at < text.length; at += BASE64_LINE_CHARACTERS) {
    lines.push(text.slice(at, at + BASE64_LINE_CHARACTERS))
  }
  return lines
}

/**
 * Verifies a multipart/signed entity and gives its signed part.
 * @throws Refusal, MimeError, Asn1Error
 */
export function openMultipartSigned(
  entity: Entity,
  signers: readonly Buffer[],
): { part: Entity; verification: Verification } {
  const contentType = entity.headers.get('content-type') ?? ''
  const [signedPart, signaturePart, ...others] = splitMultipart(contentType, entity.body, 3)
  if (signedPart === undefined || signaturePart === undefined || others.length > 0) {
    throw new MimeError('multipart/signed must have two parts')
  }
  const part = parseEntity(signedPart, 'part')
  const { contentType: type, content } = readContentInfo(cmsBytes(parseEntity(signaturePart, 'part')))
  if (type !== CONTENT_TYPE.signedData) {
    throw new Refusal('authentication-failed', 'the second part of multipart/signed is not a signature')
  }
  return { part, verification: verifySignature(readSignedData(content), formsOf(part), signers) }
}

/**
 * The forms in which a signer may have seen what we received: as it is, then with line ends made CRLF, then with
 * those of the headers alone, since some products sign a body with lone LFs untouched.
 */
function* formsOf(part: Entity): Generator<Buffer> {
  yield part.raw
  const canonical = toCrlf(part.raw)
  if (canonical === part.raw) return
  yield canonical
  const headers = part.raw.subarray(0, part.raw.length - part.body.length)
  yield Buffer.concat([toCrlf(headers), part.body])
}
