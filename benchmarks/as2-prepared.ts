import { constants, createDecipheriv, privateDecrypt, randomBytes, sign } from 'node:crypto'
import { composeMessage } from '../actors/as2/protocol/compose.ts'
import type { HeaderList } from '../runtime/mime/headers.ts'
import { formatMic } from '../actors/as2/protocol/mic.ts'
import type { TestCertificate } from '../test/support/certificates.ts'

/** A signed and encrypted message that is posted many times: neither covers the headers, so each has a new Message-ID. */
export interface PreparedMessage {
  /** Without Message-ID and Content-Length. */
  readonly headers: HeaderList
  readonly body: Buffer
  /** As a receipt must show it. */
  readonly mic: string
}

export interface Parties {
  readonly from: { readonly as2id: string; readonly keys: TestCertificate }
  readonly to: { readonly as2id: string; readonly keys: Pick<TestCertificate, 'certificate'> }
}

/** Signed with SHA-256, encrypted with AES-256-CBC, asking for a signed synchronous receipt. */
export async function prepareMessage({ from, to }: Parties, sizeBytes: number): Promise<PreparedMessage> {
  const composed = await composeMessage({
    as2From: from.as2id,
    as2To: to.as2id,
    messageId: '<prepared@load>',
    subject: 'an order',
    date: new Date(),
    fileName: 'order.edi',
    contentType: 'application/edifact',
    content: ediText(sizeBytes),
    compression: 'None',
    signature: {
      algorithm: 'SHA256',
      scheme: 'PKCS1',
      certificate: from.keys.certificate,
      privateKey: from.keys.privateKey,
    },
    encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: to.keys.certificate },
    receipt: { signed: true, asyncUrl: null },
    product: 'Load/1.0',
  })
  return {
    headers: composed.headers.filter(([name]) => name.toLowerCase() !== 'message-id'),
    body: composed.body,
    mic: formatMic(composed.mic),
  }
}

/** Text as EDIFACT looks; half of it does not compress. */
export function ediText(sizeBytes: number): Buffer {
  let text = ''
  for (let line = 1; text.length < sizeBytes; line += 1) {
    text += `LIN+${line}++${randomBytes(6).toString('hex')}:EN'QTY+47:${line % 97}:PCE'MOA+203:${line}.00'\r\n`
  }
  return Buffer.from(text.slice(0, sizeBytes))
}

/** Where the minimal program finds in the message what it works on, so that it parses nothing. */
export interface MessageFacts {
  readonly keyAt: number
  readonly keyBytes: number
  /** Base64. */
  readonly iv: string
  readonly contentAt: number
  readonly contentBytes: number
  /** Over the decrypted content, base64. */
  readonly signature: string
}

const AES256_CBC = Buffer.from('060960864801650304012a', 'hex')
const OCTETS_256 = Buffer.from('04820100', 'hex')
const IV_BYTES = 16

/** Of a message in DER that is encrypted to an RSA key of 2,048 bits. */
export function factsOfMessage(
  body: Buffer,
  parties: { from: TestCertificate; to: TestCertificate },
): MessageFacts {
  const keyAt = body.indexOf(OCTETS_256) + OCTETS_256.length
  const keyBytes = 256
  const ivAt = body.indexOf(AES256_CBC) + AES256_CBC.length + 2
  const iv = body.subarray(ivAt, ivAt + IV_BYTES)
  const { at: contentAt, bytes: contentBytes } = contentOf(body, ivAt + IV_BYTES)
  const padding = constants.RSA_PKCS1_PADDING
  const key = privateDecrypt({ key: parties.to.privateKey, padding }, body.subarray(keyAt, keyAt + keyBytes))
  const decipher = createDecipheriv('aes-256-cbc', key, iv)
  const plain = Buffer.concat([
    decipher.update(body.subarray(contentAt, contentAt + contentBytes)),
    decipher.final(),
  ])
  return {
    keyAt,
    keyBytes,
    iv: iv.toString('base64'),
    contentAt,
    contentBytes,
    signature: sign('sha256', plain, parties.from.privateKey).toString('base64'),
  }
}

/** The element `[0] IMPLICIT OCTET STRING` at an offset. */
function contentOf(body: Buffer, at: number): { at: number; bytes: number } {
  if (body[at] !== 0x80) throw new Error('The encrypted content is not where DER has it')
  const first = body[at + 1] ?? 0
  const octets = first > 0x80 ? first - 0x80 : 0
  return { at: at + 2 + octets, bytes: octets === 0 ? first : body.readUIntBE(at + 2, octets) }
}
