/**
 * The bytes around what is signed, in an encrypted message. No signature covers them, and a reader passes over most of
 * them; so blocks of a ciphertext could be put there, and the acceptance of the message would tell what they decrypt to:
 * behind the closing delimiter whether they end in a padding, in a header whether they hold a line end. Blocks that are
 * put in or behind always come with one that decrypts to chance: it is not text.
 */
import { isBer, MimeError } from './mime.ts'
import type { Entity } from './mime.ts'

/** @throws MimeError unless all around the signed part and its signature is text */
export function checkAroundParts(entity: Entity, part: Entity, signature: Entity): void {
  const { raw } = entity
  const [first, second, third] = signature.body
  const binary = isBer(first, second, third) ? signature.body : signature.body.subarray(0, 0)
  const partStart = part.raw.byteOffset - raw.byteOffset
  const signatureStart = binary.byteOffset - raw.byteOffset
  checkText(raw.subarray(0, partStart))
  checkText(raw.subarray(partStart + part.raw.length, signatureStart))
  checkText(raw.subarray(signatureStart + binary.length))
}

/** The same for a CMS object: its headers, and its base64 or what follows its end. */
export function checkAroundCms({ raw, body }: Entity, trailing: Buffer): void {
  checkText(raw.subarray(0, raw.length - body.length))
  const [first, second, third] = body
  checkText(isBer(first, second, third) ? trailing : body)
}

/** @throws MimeError */
export function checkText(bytes: Buffer): void {
  for (const octet of bytes) {
    const isText =
      (octet >= 0x20 && octet < 0x7f) || octet === 0x0a || octet === 0x0d || octet === 0x09 || octet === 0
    if (!isText) throw new MimeError('what surrounds the signed part is not text')
  }
}
