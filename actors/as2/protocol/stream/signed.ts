/** Signed content, opened as it comes: multipart/signed (RFC 1847) and opaque SignedData (RFC 5652 §5). */
import { DIGESTS, digestOfOid, digestOfSpelling, isSigningDigest } from '../algorithms.ts'
import type { DigestName, SigningDigest } from '../algorithms.ts'
import { Asn1Error } from '../asn1/asn1-error.ts'
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import { readCarried, readSigners } from '../cms/signed-data.ts'
import { judgeDigests, refusalOf } from '../cms/verification.ts'
import type { Signature, Verification } from '../cms/verification.ts'
import { isBer, MimeError, parseEntity } from '../mime.ts'
import { readSignature } from '../multipart-signed.ts'
import { parseParameters } from '../../../../runtime/mime/parameters.ts'
import { Refusal } from '../refusal.ts'
import { checkText } from '../surroundings.ts'
import type { Step } from '../equal-effort.ts'
import type { BerStream } from './ber-stream.ts'
import { ByteSource } from './byte-source.ts'
import { FirstFailure, settled } from './conclusion.ts'
import type { Conclusion } from './conclusion.ts'
import { readEntity } from './entity.ts'
import type { StreamedEntity } from './entity.ts'
import type { Inside, InsideEntity } from './inside.ts'
import { MAX_STRUCTURE_BYTES } from './limits.ts'
import { MultipartStream } from './multipart.ts'
import { PartDigests } from './part-digests.ts'

const SIGNING_DIGESTS = (Object.keys(DIGESTS) as DigestName[]).filter(isSigningDigest)

/** A signature of which another reading must tell whether it is of the content. */
export interface KnownSignature {
  readonly digest: SigningDigest
  /** What became of the signed content, which is not opened again. */
  readonly content: Conclusion
}

export interface SignatureOpening {
  readonly signers: readonly Buffer[]
  /** Of an earlier reading of the same message. */
  readonly known: KnownSignature | null
  /** To be called when only another reading tells whether the content is what was signed. */
  readonly ask: (signature: KnownSignature) => void
  /** To be called before a step is tried (see equal-effort.ts). */
  readonly reach: (step: Step) => void
}

export interface DetachedOpening extends SignatureOpening {
  readonly isEncrypted: boolean
  readonly open: InsideEntity
}

export async function openDetached(
  { headers, head, body }: StreamedEntity,
  { open, isEncrypted, ...opening }: DetachedOpening,
): Promise<Conclusion> {
  const contentType = headers.get('content-type') ?? ''
  opening.reach('parts')
  // Nothing but text may stand around what is signed, once it was encrypted: see surroundings.ts.
  const around = new FirstFailure()
  const check = (bytes: Buffer): void => {
    if (isEncrypted) around.try(() => checkText(bytes))
  }
  check(head)
  const parts = new MultipartStream(contentType, body, 3, check)
  let conclude: Conclusion | null = null
  let digests: PartDigests | null = null
  let signaturePart: Buffer | null = null
  let count = 0
  for (let part = await parts.next(); part !== null; part = await parts.next()) {
    count++
    if (count === 1) {
      const entity = await readEntity(part, 'part')
      const { known } = opening
      digests =
        known === null ? PartDigests.received(micalgsOf(contentType)) : PartDigests.allForms(known.digest)
      digests.head(entity.head)
      const content = new ByteSource(digested(entity.body, digests))
      conclude = await foundIn(content, known, (inner) => open({ ...entity, body: inner }))
    } else if (count === 2) {
      signaturePart = await collected(part)
    } else {
      await part.drain()
    }
  }
  if (count !== 2 || conclude === null || digests === null || signaturePart === null) {
    throw new MimeError('multipart/signed must have two parts')
  }
  const signatureEntity = parseEntity(signaturePart, 'part')
  const [first, second, third] = signatureEntity.body
  const binaryBytes = isBer(first, second, third) ? signatureEntity.body.length : 0
  check(signaturePart.subarray(0, signaturePart.length - binaryBytes))
  around.tell()
  opening.reach('signature')
  const signature = readSignature(signatureEntity)
  return verified(signature, { digests, content: conclude, hasForms: true }, opening)
}

/** `ber` stands in the fields of the SignedData. */
export async function openOpaque(
  ber: BerStream,
  { open, ...opening }: SignatureOpening & { readonly open: Inside },
): Promise<Conclusion> {
  await ber.open(TAG.INTEGER)
  await ber.close()
  const named = digestsOf(await ber.element(TAG.SET))
  await ber.open(TAG.SEQUENCE)
  ber.children()
  const contentType = (await ber.element(TAG.OBJECT_IDENTIFIER)).oid()
  const { known } = opening
  // Its content has no other forms. They are computed so that no signature costs another time than that of a multipart.
  const digests = known === null ? PartDigests.received(named) : PartDigests.allForms(known.digest)
  let content: Conclusion | Asn1Error | null = null
  if ((await ber.nextTag()) === contextTag(0, 'constructed')) {
    content = await openEncapsulated(ber, digests, (octets) => foundIn(octets, known, open))
  }
  await ber.close()
  const certificates = contextTag(0, 'constructed')
  const carried = readCarried((await ber.nextTag()) === certificates ? await ber.element() : null)
  await ber.skipOptional(contextTag(1, 'constructed'))
  const signature = { ...readSigners(await ber.element(TAG.SET), contentType), carried }
  if (content === null) {
    throw new Refusal('unexpected-processing-error', 'the signature comes without its content')
  }
  await ber.closeAll()
  if (content instanceof Asn1Error) throw content
  return verified(signature, { digests, content, hasForms: false }, opening)
}

/** What becomes of signed content: in another reading that is known. */
async function foundIn(content: ByteSource, known: KnownSignature | null, open: Inside): Promise<Conclusion> {
  if (known === null) return settled(content, open(content))
  await content.drain()
  return known.content
}

/** What is wrong with the octets themselves counts only behind the signature that follows them. */
async function openEncapsulated(
  ber: BerStream,
  digests: PartDigests,
  open: Inside,
): Promise<Conclusion | Asn1Error> {
  const { depth } = ber
  await ber.open()
  try {
    ber.children()
    await ber.open()
    const content = new ByteSource(digested(ber.octets(), digests))
    const conclude = await open(content)
    await ber.close()
    return conclude
  } catch (thrown) {
    if (!(thrown instanceof Asn1Error) || !(await ber.recover(depth))) throw thrown
    return thrown
  }
}

interface SignedContent {
  readonly digests: PartDigests
  readonly content: Conclusion
  /** Whether its signer may have seen it with other line ends. */
  readonly hasForms: boolean
}

function verified(signature: Signature, signed: SignedContent, opening: SignatureOpening): Conclusion {
  const verification = verify(signature, signed, opening)
  return (progress) => {
    progress.verification = verification
    return signed.content(progress)
  }
}

/** Null when another reading was asked for. */
function verify(
  signature: Signature,
  { digests, content, hasForms }: SignedContent,
  { signers, known, ask, reach }: SignatureOpening,
): Verification | null {
  reach('verification')
  const { digestAlgorithm: digest } = signature
  const forms = digests.of(digest)
  if (forms === null) {
    ask({ digest, content })
    return null
  }
  const verdict = judgeDigests(signature, hasForms ? forms : forms.slice(0, 1), signers, true)
  if (!('modifier' in verdict)) return verdict
  const isOtherForm = verdict.isOfSomebody && !verdict.isOfContent && hasForms
  if (!isOtherForm || known !== null) throw refusalOf(verdict)
  ask({ digest, content })
  return null
}

async function* digested(source: AsyncIterable<Buffer>, digests: PartDigests): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    digests.body(chunk)
    yield chunk
  }
}

/** Those that the message announces; all when it announces none that is known. */
function micalgsOf(contentType: string): readonly SigningDigest[] {
  const spellings = parseParameters(contentType).parameters.get('micalg')?.split(',') ?? []
  return usable(spellings.map((spelling) => digestOfSpelling(spelling.trim())))
}

/** Those of the DigestAlgorithmIdentifiers. */
function digestsOf(identifiers: BerElement): readonly SigningDigest[] {
  const names: (DigestName | null)[] = []
  try {
    for (const each of identifiers.children()) names.push(digestOfOid(each.children().next().oid()))
  } catch (thrown) {
    // Nothing depends on them: what the signature itself names is what counts.
    if (!(thrown instanceof Asn1Error)) throw thrown
  }
  return usable(names)
}

function usable(names: readonly (DigestName | null)[]): readonly SigningDigest[] {
  const known = names.filter((name) => name !== null).filter(isSigningDigest)
  return known.length > 0 ? known : SIGNING_DIGESTS
}

async function collected(part: ByteSource): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of part) if (part.position <= MAX_STRUCTURE_BYTES) chunks.push(chunk)
  if (part.position > MAX_STRUCTURE_BYTES) throw new MimeError('the signature is too large')
  return Buffer.concat(chunks)
}
