/** The layers of an AS2 message, opened as they come, by the rules of `openLayers` in read.ts. */
import { contextTag, TAG } from '../asn1/tag.ts'
import type { Authentication } from '../cms/content-encryption.ts'
import { CONTENT_TYPE } from '../cms/oids.ts'
import { decoyFor } from '../decoy.ts'
import type { Decoy } from '../decoy.ts'
import type { EqualEffort, Step } from '../equal-effort.ts'
import { parseParameters } from '../../../../runtime/mime/parameters.ts'
import { checkOrder, expansionLimit } from '../read.ts'
import type { Reception } from '../incoming.ts'
import { Refusal } from '../refusal.ts'
import { checkText } from '../surroundings.ts'
import { TextCheck } from '../text.ts'
import { checkBeforeExpanding, isInVain, mustBeSigned, unsigned, unsignedRefusal } from '../unsigned.ts'
import { BerStream } from './ber-stream.ts'
import { ByteSource } from './byte-source.ts'
import { cmsBody } from './cms-body.ts'
import { openCompressed } from './compressed.ts'
import { FirstFailure, settled } from './conclusion.ts'
import type { Conclusion } from './conclusion.ts'
import { readEntity } from './entity.ts'
import type { StreamedEntity } from './entity.ts'
import { openEnveloped } from './enveloped.ts'
import type { Inside, InsideEntity } from './inside.ts'
import { MAX_EXPANDED_BYTES } from './limits.ts'
import { openDetached, openOpaque } from './signed.ts'
import type { KnownSignature } from './signed.ts'

/** What can only be known behind the content, and must be known before it; and what need not be found again. */
export interface Hindsight {
  authentication: Authentication | null
  signature: KnownSignature | null
  /** What became of the content of an envelope. */
  decrypted: Conclusion | null
  /** To be shown all that was decrypted. */
  text: TextCheck | null
}

/** One reading of a message. */
export interface Pass {
  readonly reception: Reception
  /** From an earlier reading. */
  readonly known: Readonly<Hindsight>
  /** What another reading must know. */
  readonly asked: Hindsight
  readonly effort: EqualEffort
  /** Of compressed content, of which there is one at most. */
  readonly expansion: { isEnough: boolean }
  readonly innermost: (entity: StreamedEntity, isSigned: boolean) => Promise<Conclusion>
}

/**
 * A message that fails is charged with the work on its signature that it did not come to. The content itself has been
 * digested on any way, so that as much as a small message has is enough.
 */
const EFFORT_SAMPLE_BYTES = 4_096

/** The layers around an entity. */
interface Around {
  readonly isEncrypted: boolean
  readonly isCompressed: boolean
  readonly isSigned: boolean
}

export const NO_LAYERS: Around = { isEncrypted: false, isCompressed: false, isSigned: false }

/** At most encrypted, then compressed, then signed, then compressed, and compressed only once. */
export async function openLayers(entity: StreamedEntity, around: Around, pass: Pass): Promise<Conclusion> {
  const { value: type } = parseParameters(entity.headers.get('content-type') ?? '')
  if (type === 'multipart/signed') {
    checkOrder(!around.isSigned)
    const open: InsideEntity = (part) => openLayers(part, { ...around, isSigned: true }, pass)
    const { isEncrypted } = around
    return openDetached(entity, { ...signatureOpening(pass), isEncrypted, open })
  }
  if (type === 'application/pkcs7-mime' || type === 'application/x-pkcs7-mime') {
    return openCms(entity, around, pass)
  }
  return openInnermost(entity, around, pass)
}

async function openInnermost(
  { headers, head, body: whole }: StreamedEntity,
  around: Around,
  pass: Pass,
): Promise<Conclusion> {
  const { reception, asked, expansion, innermost } = pass
  const { isEncrypted, isCompressed, isSigned } = around
  const text = new TextCheck()
  const mayBeTold = reception.require?.signed === true && isEncrypted && !isSigned
  // What was decrypted is looked through in another reading: of all messages that fail, so that none takes longer.
  if (mayBeTold && !isCompressed) asked.text = text
  const isWatched = mayBeTold && isCompressed
  if (isWatched) text.write(head)
  const body = isWatched ? new ByteSource(watched(whole, text, expansion)) : whole
  const conclude = isInVain(reception, around)
    ? await drained(body, expansion)
    : await settled(body, innermost({ headers, head, body }, isSigned))
  return (progress) => {
    if (mustBeSigned(reception, progress)) {
      throw unsignedRefusal(progress, { headers, head, isText: text.isText && !expansion.isEnough })
    }
    return conclude(progress)
  }
}

/** Reads no more of what counts for nothing than is held of it in memory. */
async function drained(body: ByteSource, expansion: Pass['expansion']): Promise<Conclusion> {
  while ((await body.next()) !== null) expansion.isEnough ||= body.position > MAX_EXPANDED_BYTES
  return () => {
    throw unsigned()
  }
}

async function* watched(
  source: AsyncIterable<Buffer>,
  text: TextCheck,
  expansion: Pass['expansion'] | null = null,
): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    if (expansion?.isEnough !== true) text.write(chunk)
    yield chunk
  }
}

async function openCms(entity: StreamedEntity, around: Around, pass: Pass): Promise<Conclusion> {
  const { head, body } = entity
  // Nothing but text may stand around what is signed, once it was encrypted: see surroundings.ts.
  const surroundings = new FirstFailure()
  const check = (bytes: Buffer): void => {
    if (around.isEncrypted && !around.isSigned) surroundings.try(() => checkText(bytes))
  }
  check(head)
  const cms = await cmsBody(entity, check)
  const ber = new BerStream(cms)
  const trailing = cms === body ? check : () => undefined
  let conclude: Conclusion
  let isContentInfo = false
  try {
    const contentType = await openContentInfo(ber)
    isContentInfo = true
    conclude = await openContent(ber, contentType, { around, pass })
  } catch (thrown) {
    await ber.drain(trailing)
    if (isContentInfo && ber.brokenDepth >= CONTENT_INFO_DEPTH) surroundings.tell()
    throw thrown
  }
  await ber.drain(trailing)
  surroundings.tell()
  return conclude
}

/** Elements around the fields of the content: those of the ContentInfo, and its SEQUENCE. */
const CONTENT_INFO_DEPTH = 3

/** Opens the structure that every CMS object is, up to its content; answers the type of that. */
async function openContentInfo(ber: BerStream): Promise<string> {
  await ber.open(TAG.SEQUENCE)
  ber.children()
  const contentType = (await ber.element(TAG.OBJECT_IDENTIFIER)).oid()
  await ber.open(contextTag(0, 'constructed'))
  ber.children()
  await ber.open(TAG.SEQUENCE)
  return contentType
}

async function openContent(
  ber: BerStream,
  contentType: string,
  { around, pass }: { readonly around: Around; readonly pass: Pass },
): Promise<Conclusion> {
  const inside =
    (layer: Partial<Around>): Inside =>
    async (content) =>
      openLayers(await readEntity(content, 'payload'), { ...around, ...layer }, pass)
  const { decryption, maxContentBytes } = pass.reception
  switch (contentType) {
    case CONTENT_TYPE.envelopedData:
    case CONTENT_TYPE.authEnvelopedData: {
      checkOrder(!around.isEncrypted && !around.isCompressed && !around.isSigned)
      ber.children()
      return openEnveloped(ber, {
        type: contentType === CONTENT_TYPE.envelopedData ? 'envelopedData' : 'authEnvelopedData',
        keys: decryption,
        known: pass.known.authentication,
        ask: (authentication) => void (pass.asked.authentication = authentication),
        begin: () => pass.effort.decrypted(Buffer.alloc(EFFORT_SAMPLE_BYTES), true),
        open: decrypted(pass, inside({ isEncrypted: true })),
      })
    }
    case CONTENT_TYPE.compressedData: {
      checkOrder(!around.isCompressed)
      checkBeforeExpanding(pass.reception, around)
      ber.children()
      const { isSigned } = around
      const expansion = {
        maxBytes: expansionLimit(maxContentBytes),
        isEnough: () => pass.expansion.isEnough,
      }
      return openCompressed(ber, expansion, { isSigned, open: inside({ isCompressed: true }) })
    }
    case CONTENT_TYPE.signedData:
      checkOrder(!around.isSigned)
      ber.children()
      return openOpaque(ber, { ...signatureOpening(pass), open: inside({ isSigned: true }) })
    default:
      throw new Refusal('unexpected-processing-error', `CMS content of type ${contentType} is not supported`)
  }
}

/**
 * Opens what was decrypted, once. Another reading looks through it as text. Where that is not for a signature it does all
 * that one does that is, around the same bytes, and finds what the first has found.
 */
function decrypted({ reception, known, asked }: Pass, open: Inside): Inside {
  return async (content) => {
    if (known.decrypted === null) {
      asked.decrypted = await settled(content, open(content))
      return asked.decrypted
    }
    const seen = new ByteSource(watched(content, known.text ?? new TextCheck()))
    if (known.signature !== null) return settled(seen, open(seen))
    const signed = new ByteSource(signedByNobody(seen, decoyFor(reception.signers)))
    await settled(signed, openDecoy(signed, reception.signers, known.decrypted))
    return known.decrypted
  }
}

async function* signedByNobody(content: ByteSource, { head, tail }: Decoy): AsyncGenerator<Buffer> {
  yield head
  yield* content
  yield tail
}

async function openDecoy(
  source: ByteSource,
  signers: readonly Buffer[],
  content: Conclusion,
): Promise<Conclusion> {
  const { digestAlgorithm: digest } = decoyFor(signers).signature
  return openDetached(await readEntity(source, 'payload'), {
    signers,
    known: { digest, content },
    ask: () => undefined,
    reach: () => undefined,
    isEncrypted: true,
    open: () => Promise.resolve(content),
  })
}

function signatureOpening({ reception, known, asked, effort }: Pass) {
  return {
    signers: reception.signers,
    known: known.signature,
    ask: (signature: KnownSignature) => void (asked.signature = signature),
    reach: (step: Step) => effort.reach(step),
  }
}
