/** Opens an AS2 message: decrypts, decompresses and verifies, and computes the MIC for its receipt. */
import type { CipherName, KeyTransport, SignatureScheme, SigningDigest } from './algorithms.ts'
import { Asn1Error } from './asn1/asn1-error.ts'
import { openCompressedData } from './cms/compressed-data.ts'
import { readContentInfo } from './cms/content-info.ts'
import type { ContentInfo } from './cms/content-info.ts'
import { openEnvelopedData } from './cms/enveloped-data.ts'
import { CONTENT_TYPE } from './cms/oids.ts'
import type { DecryptionKey } from './cms/recipient.ts'
import { readSignedData } from './cms/signed-data.ts'
import { verifySignature } from './cms/verification.ts'
import type { Verification } from './cms/verification.ts'
import type { Compression } from './compose.ts'
import { readEnvelope } from './envelope.ts'
import type { Envelope, ReceiptRequest } from './envelope.ts'
import { HeaderFields } from './headers.ts'
import type { HeaderList } from './headers.ts'
import { micOf } from './mic.ts'
import type { Mic } from './mic.ts'
import { cmsBytes, decodeBody, MimeError, parseEntity } from './mime.ts'
import type { Entity } from './mime.ts'
import { openMultipartSigned } from './multipart-signed.ts'
import { fileNameOf, parseParameters } from './parameters.ts'
import { Refusal } from './refusal.ts'

/** What MIME headers, signature and padding may add to compressed content, in bytes. */
const LAYER_ALLOWANCE_BYTES = 131_072

export interface ReceivedMessage {
  readonly headers: HeaderList
  readonly body: Buffer
  readonly decryption: readonly DecryptionKey[]
  /** The certificates that the sender may sign with, DER; no others count. */
  readonly signers: readonly Buffer[]
  readonly maxContentBytes: number
  /** What the sender must have done; default nothing. */
  readonly require?: { readonly signed: boolean; readonly encrypted: boolean }
}

export interface Incoming extends Envelope {
  readonly content: Buffer
  readonly contentType: string
  /** As the sender wrote it: never a path to use unchecked. */
  readonly fileName: string | null
  readonly signed: boolean
  readonly encrypted: boolean
  readonly compressed: boolean
  readonly algorithms: Algorithms
  /** For the receipt. */
  readonly mic: Mic
}

/** Null for what the message does not have. */
export interface Algorithms {
  readonly signature: SigningDigest | null
  readonly signatureScheme: SignatureScheme | null
  readonly encryption: CipherName | null
  readonly keyTransport: KeyTransport | null
  readonly compression: Exclude<Compression, 'None'> | null
}

/** What is known of a message while its layers come off. */
interface Progress {
  encryption: { algorithm: CipherName; keyTransport: KeyTransport } | null
  compression: Algorithms['compression']
  verification: Verification | null
}

/**
 * Opens a message. Which layers it has, and over what its MIC is, is decided by the message itself.
 * @throws Refusal with the modifier for the receipt
 */
export async function readMessage(message: ReceivedMessage): Promise<Incoming> {
  const envelope = readEnvelope(message.headers)
  const progress: Progress = { encryption: null, compression: null, verification: null }
  try {
    const headers = new HeaderFields(message.headers)
    const outermost: Entity = { headers, body: message.body, raw: message.body }
    const entity = await openLayers(outermost, message, progress)
    const incoming = describe(entity, envelope, progress)
    checkPolicy(incoming, message)
    return incoming
  } catch (thrown) {
    throw refusalOf(thrown, progress)
  }
}

/** At most encrypted, then compressed, then signed, then compressed, and compressed only once. */
async function openLayers(entity: Entity, message: ReceivedMessage, progress: Progress): Promise<Entity> {
  let current = entity
  for (;;) {
    const { value: type } = parseParameters(current.headers.get('content-type') ?? '')
    if (type === 'multipart/signed') {
      checkOrder(progress.verification === null)
      const { part, verification } = openMultipartSigned(current, message.signers)
      progress.verification = verification
      current = part
    } else if (type === 'application/pkcs7-mime' || type === 'application/x-pkcs7-mime') {
      current = await openCms(readContentInfo(cmsBytes(current)), message, progress)
    } else {
      return current
    }
  }
}

async function openCms(info: ContentInfo, message: ReceivedMessage, progress: Progress): Promise<Entity> {
  const { contentType, content } = info
  switch (contentType) {
    case CONTENT_TYPE.envelopedData:
    case CONTENT_TYPE.authEnvelopedData: {
      checkOrder(Object.values(progress).every((layer) => layer === null))
      const type = contentType === CONTENT_TYPE.envelopedData ? 'envelopedData' : 'authEnvelopedData'
      const opened = openEnvelopedData(type, content, message.decryption)
      progress.encryption = opened
      return parseEntity(opened.content, 'payload')
    }
    case CONTENT_TYPE.compressedData: {
      checkOrder(progress.compression === null)
      progress.compression = progress.verification === null ? 'AfterSigning' : 'BeforeSigning'
      const bytes = await openCompressedData(content, message.maxContentBytes + LAYER_ALLOWANCE_BYTES)
      return parseEntity(bytes, 'payload')
    }
    case CONTENT_TYPE.signedData: {
      checkOrder(progress.verification === null)
      const signed = readSignedData(content)
      if (signed.content === null) {
        throw new Refusal('unexpected-processing-error', 'the signature comes without its content')
      }
      progress.verification = verifySignature(signed, [signed.content], message.signers)
      return parseEntity(signed.content, 'payload')
    }
    default:
      throw new Refusal('unexpected-processing-error', `CMS content of type ${contentType} is not supported`)
  }
}

function checkOrder(allowed: boolean): void {
  if (!allowed)
    throw new Refusal('unexpected-processing-error', 'the layers of the message have no known order')
}

function describe(entity: Entity, envelope: Envelope, progress: Progress): Incoming {
  const { encryption, compression, verification } = progress
  const contentType = entity.headers.get('content-type')
  return {
    ...envelope,
    content: decodeBody(entity),
    contentType: contentType ?? 'application/octet-stream',
    fileName: fileNameOf(entity.headers.get('content-disposition'), contentType),
    signed: verification !== null,
    encrypted: encryption !== null,
    compressed: compression !== null,
    algorithms: {
      signature: verification?.digest ?? null,
      signatureScheme: verification?.scheme ?? null,
      encryption: encryption?.algorithm ?? null,
      keyTransport: encryption?.keyTransport ?? null,
      compression,
    },
    mic: verification?.mic ?? micOf(digestOfReceipt(envelope.receiptRequest), entity.raw),
  }
}

/** RFC 4130 §7.3.1: the first known of the request, else SHA-1. A signature's own digest comes before both. */
function digestOfReceipt(request: ReceiptRequest | null): Mic['algorithm'] {
  return request?.micAlgorithms[0] ?? 'SHA1'
}

function checkPolicy(incoming: Incoming, { require, maxContentBytes }: ReceivedMessage): void {
  if (require?.signed === true && !incoming.signed) {
    throw new Refusal('insufficient-message-security', 'the message is not signed', incoming.mic)
  }
  if (require?.encrypted === true && !incoming.encrypted) {
    throw new Refusal('insufficient-message-security', 'the message is not encrypted', incoming.mic)
  }
  if (incoming.content.length > maxContentBytes) {
    const reason = `the content has more than ${maxContentBytes} bytes`
    throw new Refusal('unexpected-processing-error', reason, incoming.mic)
  }
}

/**
 * What fails inside an encrypted message before the partner's signature is verified may be the work of somebody
 * who alters ciphertexts and watches the answers: all of it is told as `decryption-failed`, without a MIC. The
 * reason stays with the operator.
 */
function refusalOf(thrown: unknown, { encryption, verification }: Progress): unknown {
  const malformed = thrown instanceof Asn1Error || thrown instanceof MimeError
  if (!malformed && !(thrown instanceof Refusal)) return thrown
  const reason = malformed ? `the message is malformed: ${thrown.message}` : thrown.reason
  if (encryption !== null && verification === null) {
    return new Refusal('decryption-failed', reason, null, { cause: thrown })
  }
  if (malformed) {
    return new Refusal('unexpected-processing-error', reason, verification?.mic ?? null, { cause: thrown })
  }
  return thrown.mic === null && verification !== null
    ? new Refusal(thrown.modifier, reason, verification.mic, { cause: thrown })
    : thrown
}
