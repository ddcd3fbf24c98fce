/** Opens an AS2 message: decrypts, decompresses and verifies, and computes the MIC for its receipt. */
import { contentTypeOf, firstName } from '../../../runtime/mime/attachment.ts'
import { AttachmentList } from '../../../runtime/mime/attachment-list.ts'
import type { Attachment } from '../../../runtime/mime/attachment-list.ts'
import { isSigningDigest } from './algorithms.ts'
import { Asn1Error } from './asn1/asn1-error.ts'
import { openCompressedData } from './cms/compressed-data.ts'
import { readContentInfo } from './cms/content-info.ts'
import { cannotDecrypt, openEnvelopedData } from './cms/enveloped-data.ts'
import { CONTENT_TYPE } from './cms/oids.ts'
import { readSignedData } from './cms/signed-data.ts'
import { verifySignature } from './cms/verification.ts'
import { readEnvelope } from './envelope.ts'
import type { Envelope, ReceiptRequest } from './envelope.ts'
import { rememberSignature } from './decoy.ts'
import { EqualEffort } from './equal-effort.ts'
import type {
  Incoming,
  IncomingFacts,
  OpenedContent,
  Progress,
  ReceivedMessage,
  Reception,
} from './incoming.ts'
import { HeaderFields } from '../../../runtime/mime/headers.ts'
import { micOf } from './mic.ts'
import type { Mic } from './mic.ts'
import { cmsBytes, decodeBody, MimeError, parseEntity } from './mime.ts'
import type { Entity } from './mime.ts'
import { formsOf, partsOfSigned, readSignature } from './multipart-signed.ts'
import { fileNameOf, parseParameters } from '../../../runtime/mime/parameters.ts'
import { Refusal, TellableRefusal } from './refusal.ts'
import { checkAroundCms, checkAroundParts } from './surroundings.ts'
import {
  checkBeforeExpanding,
  isInVain,
  mustBeSigned,
  unsigned,
  unsignedRefusal,
  wholeOf,
} from './unsigned.ts'

/** What MIME headers, signature and padding may add to compressed content, in bytes. */
const LAYER_ALLOWANCE_BYTES = 131_072

/**
 * Opens a message. Which layers it has, and over what its MIC is, is decided by the message itself.
 * @throws Refusal with the modifier for the receipt
 * @throws BeyondMemory when it expands to more than should be held: `readMessageStream` reads it
 */
export async function readMessage(message: ReceivedMessage): Promise<Incoming> {
  const envelope = readEnvelope(message.headers)
  const progress: Progress = { encryption: null, compression: null, verification: null }
  const effort = new EqualEffort()
  try {
    const headers = new HeaderFields(message.headers)
    const outermost: Entity = { headers, body: message.body, raw: message.body }
    const entity = await openLayers(outermost, { message, progress, effort })
    if (!effort.intact) throw cannotDecrypt()
    if (mustBeSigned(message, progress)) throw unsignedRefusal(progress, wholeOf(entity))
    const isCompressed = progress.compression !== null
    if (isInVain(message, { isCompressed, isSigned: progress.verification !== null })) throw unsigned()
    const content = decodeBody(entity)
    const attachments = attachmentsOf(contentTypeOf(entity.headers), content)
    const mic = (): Mic => micOf(digestOfReceipt(envelope.receiptRequest), entity.raw)
    const opened = { headers: entity.headers, sizeBytes: content.length, attachments, mic }
    const incoming = describe(opened, envelope, progress)
    checkPolicy(incoming, message)
    return { ...incoming, content }
  } catch (thrown) {
    if (!isRefusal(thrown)) throw thrown
    if (progress.verification === null) effort.complete(message.signers)
    throw effort.intact ? refusalOf(thrown, progress) : cannotDecrypt()
  }
}

/** A message while it is opened. */
interface Opening {
  readonly message: ReceivedMessage
  readonly progress: Progress
  readonly effort: EqualEffort
}

/** At most encrypted, then compressed, then signed, then compressed, and compressed only once. */
async function openLayers(entity: Entity, opening: Opening): Promise<Entity> {
  let current = entity
  for (;;) {
    const { value: type } = parseParameters(current.headers.get('content-type') ?? '')
    if (type === 'multipart/signed') {
      checkOrder(opening.progress.verification === null)
      current = openSigned(current, opening)
    } else if (type === 'application/pkcs7-mime' || type === 'application/x-pkcs7-mime') {
      current = await openCms(current, opening)
    } else {
      return current
    }
  }
}

function openSigned(entity: Entity, { message, progress, effort }: Opening): Entity {
  effort.reach('parts')
  const { part, signature } = partsOfSigned(entity)
  if (progress.encryption !== null) checkAroundParts(entity, part, signature)
  effort.reach('signature')
  const signed = readSignature(signature)
  effort.reach('verification')
  progress.verification = verifySignature(signed, formsOf(part), message.signers, effort.intact)
  rememberSignature(progress.verification)
  return part
}

async function openCms(entity: Entity, { message, progress, effort }: Opening): Promise<Entity> {
  const { contentType, content, trailing } = readContentInfo(cmsBytes(entity))
  if (progress.encryption !== null && progress.verification === null) checkAroundCms(entity, trailing)
  switch (contentType) {
    case CONTENT_TYPE.envelopedData:
    case CONTENT_TYPE.authEnvelopedData: {
      checkOrder(Object.values(progress).every((layer) => layer === null))
      const type = contentType === CONTENT_TYPE.envelopedData ? 'envelopedData' : 'authEnvelopedData'
      const opened = await openEnvelopedData(type, content, message.decryption)
      progress.encryption = opened
      effort.decrypted(opened.content, opened.intact)
      return parseEntity(opened.content, 'payload')
    }
    case CONTENT_TYPE.compressedData: {
      checkOrder(progress.compression === null)
      checkBeforeExpanding(message, { isEncrypted: progress.encryption !== null })
      progress.compression = progress.verification === null ? 'AfterSigning' : 'BeforeSigning'
      const bytes = await openCompressedData(content, expansionLimit(message.maxContentBytes))
      return parseEntity(bytes, 'payload')
    }
    case CONTENT_TYPE.signedData: {
      checkOrder(progress.verification === null)
      const signed = readSignedData(content)
      if (signed.content === null) {
        throw new Refusal('unexpected-processing-error', 'the signature comes without its content')
      }
      effort.reach('verification')
      progress.verification = verifySignature(signed, [signed.content], message.signers, effort.intact)
      return parseEntity(signed.content, 'payload')
    }
    default:
      throw new Refusal('unexpected-processing-error', `CMS content of type ${contentType} is not supported`)
  }
}

export function checkOrder(allowed: boolean): void {
  if (!allowed)
    throw new Refusal('unexpected-processing-error', 'the layers of the message have no known order')
}

/** The most bytes that compressed content may expand to. */
export function expansionLimit(maxContentBytes: number): number {
  return maxContentBytes + LAYER_ALLOWANCE_BYTES
}

export function describe(opened: OpenedContent, envelope: Envelope, progress: Progress): IncomingFacts {
  const { encryption, compression, verification } = progress
  const { headers, sizeBytes, attachments } = opened
  const ownName = fileNameOf(headers.get('content-disposition'), headers.get('content-type'))
  // Of several files the whole has no name, so none is taken for one of them.
  const outerName = attachments === null ? envelope.fileName : null
  return {
    ...envelope,
    sizeBytes,
    contentType: contentTypeOf(headers),
    fileName: firstName(attachments) ?? ownName ?? outerName,
    attachments,
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
    signer: verification?.signer ?? null,
    mic: verification?.mic ?? opened.mic(),
  }
}

function attachmentsOf(contentType: string, content: Buffer): readonly Attachment[] | null {
  const list = AttachmentList.of(contentType)
  if (list === null) return null
  list.write(content)
  return list.end()
}

/**
 * RFC 4130 §7.3.1: the first known of the request, else SHA-1. A signature's own digest comes before both. MD5 only where
 * the request names nothing better.
 */
export function digestOfReceipt(request: ReceiptRequest | null): Mic['algorithm'] {
  const asked = request?.micAlgorithms ?? []
  return asked.find(isSigningDigest) ?? asked[0] ?? 'SHA1'
}

export function checkPolicy(incoming: IncomingFacts, { require, maxContentBytes }: Reception): void {
  if (require?.signed === true && !incoming.signed) {
    throw new Refusal('insufficient-message-security', 'the message is not signed', incoming.mic)
  }
  if (require?.encrypted === true && !incoming.encrypted) {
    throw new Refusal('insufficient-message-security', 'the message is not encrypted', incoming.mic)
  }
  if (incoming.sizeBytes > maxContentBytes) {
    const reason = `the content has more than ${maxContentBytes} bytes`
    throw new Refusal('unexpected-processing-error', reason, incoming.mic)
  }
}

/**
 * What fails inside an encrypted message before the partner's signature is verified may be the work of somebody
 * who alters ciphertexts and watches the answers: all of it is told as `decryption-failed`, without a MIC, but for what
 * can be no such work. The reason stays with the operator.
 */
export function refusalOf(thrown: unknown, { encryption, verification }: Progress): unknown {
  if (!isRefusal(thrown)) return thrown
  const malformed = !(thrown instanceof Refusal)
  const reason = malformed ? `the message is malformed: ${thrown.message}` : thrown.reason
  if (encryption !== null && verification === null && !(thrown instanceof TellableRefusal)) {
    return new Refusal('decryption-failed', reason, null, { cause: thrown })
  }
  if (malformed) {
    return new Refusal('unexpected-processing-error', reason, verification?.mic ?? null, { cause: thrown })
  }
  return thrown.mic === null && verification !== null
    ? new Refusal(thrown.modifier, reason, verification.mic, { cause: thrown })
    : thrown
}

/** Whether it is the message that failed, and not we. */
function isRefusal(thrown: unknown): thrown is Refusal | Asn1Error | MimeError {
  return thrown instanceof Refusal || thrown instanceof Asn1Error || thrown instanceof MimeError
}
