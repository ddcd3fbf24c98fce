/**
 * Makes every failure of an encrypted message cost the same. Whoever alters ciphertexts and watches us must not learn
 * from the time whether padding, key, MIME structure or signature was at fault (RFC 3218 §2.3.2): a message that fails
 * early is charged with what it did not come to, on a decoy.
 */
import { decoyFor } from './decoy.ts'
import { digestsOf, judgeDigests } from './cms/verification.ts'
import { parseEntity } from './mime.ts'
import { formsOf, partsOfSigned, readSignature } from './multipart-signed.ts'
import { parseParameters } from '../../../runtime/mime/parameters.ts'
import { checkAroundParts } from './surroundings.ts'

/** How far the opening of a signed layer came, each step behind the one before. */
const STEPS = ['decryption', 'parts', 'signature', 'verification'] as const

export type Step = (typeof STEPS)[number]

/** Keeps account of one message. */
export class EqualEffort {
  #content: Buffer | null = null
  #intact = true
  #reached = 0

  /** Whether what was decrypted counts. */
  get intact(): boolean {
    return this.#intact
  }

  decrypted(content: Buffer, intact: boolean): void {
    this.#content = content
    this.#intact = intact
  }

  /** To be called before a step is tried, as it costs whatever becomes of it. */
  reach(step: Step): void {
    this.#reached = STEPS.indexOf(step)
  }

  /** To be called when the message is refused; it uses up the content. */
  complete(signers: readonly Buffer[]): void {
    if (this.#content !== null) spend(this.#content, signers, this.#reached)
    this.#content = null
  }
}

/** Does the steps behind the one that was reached, over as much content. */
function spend(content: Buffer, signers: readonly Buffer[], reached: number): void {
  const decoy = decoyFor(signers)
  const { head, tail, signature, signaturePart } = decoy
  if (reached < STEPS.indexOf('parts')) {
    const entity = parseEntity(framed(content, head, tail), 'payload')
    parseParameters(entity.headers.get('content-type') ?? '')
    const parts = partsOfSigned(entity)
    checkAroundParts(entity, parts.part, parts.signature)
  }
  if (reached < STEPS.indexOf('signature')) readSignature(signaturePart)
  if (reached < STEPS.indexOf('verification')) {
    const body = content.subarray(Math.min(content.length, head.length))
    const forms = formsOf({ headers: signaturePart.headers, body, raw: content })
    judgeDigests(signature, digestsOf(signature.digestAlgorithm, forms), signers, false)
  }
}

/** The content with its ends made those of a signed entity. */
function framed(content: Buffer, head: Buffer, tail: Buffer): Buffer {
  if (content.length < head.length + tail.length) return Buffer.concat([head, tail])
  head.copy(content)
  tail.copy(content, content.length - tail.length)
  return content
}
