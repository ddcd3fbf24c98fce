import { createHash } from 'node:crypto'
import { inflateSync } from 'node:zlib'
import forge from 'node-forge'

/**
 * The MIC of a message, from what travelled alone and by other means than the product's: openssl decrypts, node-forge
 * reads the structure of compressed data, and the rule is the one of RFC 4130 §7.3.1 and RFC 5402 §4, by the layers that
 * are found.
 */

export interface Entity {
  readonly contentType: string
  readonly body: Buffer
  /** With its headers. */
  readonly raw: Buffer
}

/** Decrypts CMS (DER) with the key of whom it is for. */
export type Decrypt = (der: Buffer) => Promise<Buffer>

export interface Unpacked {
  readonly content: Buffer
  /** What the MIC is over. */
  readonly covered: Buffer
}

export async function unpack(wire: Entity, decrypt: Decrypt): Promise<Unpacked> {
  let current = wire
  let signed: Buffer | null = null
  let isWrapped = false
  for (;;) {
    const { contentType, body } = current
    if (/smime-type="?(auth)?enveloped-data/i.test(contentType)) {
      current = entityOf(await decrypt(body))
      isWrapped = true
    } else if (/smime-type="?compressed-data/i.test(contentType)) {
      current = entityOf(inflateSync(compressedOctets(body)))
      isWrapped = true
    } else if (/^multipart\/signed/i.test(contentType)) {
      signed = signedPart(contentType, body)
      current = entityOf(signed)
    } else {
      return { content: body, covered: signed ?? (isWrapped ? current.raw : body) }
    }
  }
}

export function micOver(bytes: Buffer, digest: string): string {
  return createHash(digest.replace('-', '')).update(bytes).digest('base64')
}

function entityOf(raw: Buffer): Entity {
  const end = raw.indexOf('\r\n\r\n')
  const headers = raw.toString('latin1', 0, end)
  const [, contentType = ''] = /^content-type:\s*(.*)$/im.exec(headers) ?? []
  return { contentType, body: raw.subarray(end + 4), raw }
}

function signedPart(contentType: string, body: Buffer): Buffer {
  const [, boundary = ''] = /boundary="([^"]+)"/.exec(contentType) ?? []
  const start = body.indexOf(`--${boundary}\r\n`) + boundary.length + 4
  return body.subarray(start, body.indexOf(`\r\n--${boundary}\r\n`, start))
}

/** ContentInfo → CompressedData → EncapsulatedContentInfo → OCTET STRING (RFC 3274 §1.1). */
function compressedOctets(der: Buffer): Buffer {
  const info = forge.asn1.fromDer(der.toString('latin1'))
  const compressed = child(child(child(info, 1), 0), 2)
  return Buffer.from(child(child(compressed, 1), 0).value as string, 'latin1')
}

function child(element: forge.asn1.Asn1, index: number): forge.asn1.Asn1 {
  const found = (element.value as forge.asn1.Asn1[])[index]
  if (found === undefined) throw new Error('CompressedData lacks an element')
  return found
}
