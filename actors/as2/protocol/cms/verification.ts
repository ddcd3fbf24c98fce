/** Whether content is signed by one of the certificates a profile names. */
import { timingSafeEqual } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import type { SignatureScheme, SigningDigest } from '../algorithms.ts'
import { carriedKey, matchesIdentifier, prepareCertificate } from '../certificate.ts'
import type { PreparedCertificate } from '../certificate.ts'
import { digest, micOfDigest } from '../mic.ts'
import type { Mic } from '../mic.ts'
import { Refusal, TellableRefusal } from '../refusal.ts'
import { isSignedBy } from './signature.ts'
import type { SignedData } from './signed-data.ts'

export interface Verification {
  readonly digest: SigningDigest
  readonly scheme: SignatureScheme
  /** Over the content as the signer saw it. */
  readonly mic: Mic
  readonly signer: Signer
}

/** Whose key signed, by the given certificates, DER. */
export interface Signer {
  /** The one that the signature names; the first of them where it names none. */
  readonly certificate: Buffer
  /** All that the signature verifies with: a renewed certificate may keep its key. They are in the order they were given in. */
  readonly certificates: readonly Buffer[]
}

/** What a signature says without its content. */
export type Signature = Omit<SignedData, 'content'>

/** Why a signature does not count, with the MIC of the content as received. */
export interface Flaw {
  readonly modifier: 'authentication-failed' | 'integrity-check-failed'
  readonly reason: string
  readonly mic: Mic | null
  /** Whether somebody made the signature: the partner, or who the certificate that travels with it is of. */
  readonly isOfSomebody: boolean
  /** Whether it is over the content, in one of the forms that were tried. */
  readonly isOfContent: boolean
}

/**
 * Verifies a signature over the content.
 * @param forms the content as received, then other forms of it in which a signer may have seen it
 * @param signers the only certificates that count, DER; the key decides, not which of them the signature names
 * @param intact whether what was decrypted counts; if not, nothing is genuine, after the same work
 * @throws Refusal `authentication-failed` or `integrity-check-failed`, with the MIC of the content as received; that of a
 *   stranger's sound signature may be told
 */
export function verifySignature(
  signed: Signature,
  forms: Iterable<Buffer>,
  signers: readonly Buffer[],
  intact = true,
): Verification {
  const verdict = judgeDigests(signed, digestsOf(signed.digestAlgorithm, forms), signers, intact)
  if ('modifier' in verdict) throw refusalOf(verdict)
  return verdict
}

/**
 * A stranger who signed what is there knew it: so it may be told that the signature is not the partner's, also inside of
 * encryption. Whoever altered a ciphertext has no signature over what it became.
 */
export function refusalOf({ modifier, reason, mic, isOfSomebody, isOfContent }: Flaw): Refusal {
  const isOfStranger = modifier === 'authentication-failed' && isOfSomebody && isOfContent
  return isOfStranger ? new TellableRefusal(modifier, reason, mic) : new Refusal(modifier, reason, mic)
}

export function* digestsOf(algorithm: SigningDigest, forms: Iterable<Buffer>): Generator<Buffer> {
  for (const form of forms) yield digest(algorithm, form)
}

/**
 * Whether a signature counts, by the digests of the forms of its content. Whatever is wrong with it, all forms have been
 * tried, every signer, and who the signature itself says it is of: the time does not tell what it was.
 */
export function judgeDigests(
  signed: Signature,
  digests: Iterable<Buffer>,
  signers: readonly Buffer[],
  intact: boolean,
): Verification | Flaw {
  const { digestAlgorithm, signatureAlgorithm, messageDigest } = signed
  const prepared = signers.map(prepareCertificate)
  const signer = findSigner(signed, prepared)
  const counting = intact ? signer : null
  let received: Mic | null = null
  let mic: Mic | null = null
  for (const value of digests) {
    received ??= micOfDigest(digestAlgorithm, value)
    if (value.length === messageDigest.length && timingSafeEqual(value, messageDigest)) {
      mic ??= micOfDigest(digestAlgorithm, value)
      if (counting !== null) break
    }
  }
  if (counting !== null && mic !== null) {
    return { digest: digestAlgorithm, scheme: signatureAlgorithm.scheme, mic, signer: counting }
  }
  const isOfCarried = isSignedByCarried(signed, prepared)
  const flaw = {
    mic: received,
    isOfSomebody: intact && (signer !== null || isOfCarried),
    isOfContent: intact && mic !== null,
  }
  return counting === null
    ? { ...flaw, modifier: 'authentication-failed', reason: whyNobodySigned(prepared) }
    : { ...flaw, modifier: 'integrity-check-failed', reason: 'the content differs from what was signed' }
}

/** Without a certificate to look at, as much is done with one of the partner's. */
function isSignedByCarried(signed: Signature, signers: readonly PreparedCertificate[]): boolean {
  const { signer, signatureAlgorithm, signedAttributes, signature, carried } = signed
  let key: KeyObject | null = null
  for (const each of carried) key ??= carriedKey(each, signer)
  const worked = key ?? signers[0]?.publicKey ?? null
  const isSigned = worked !== null && isSignedBy(worked, signatureAlgorithm, signedAttributes, signature)
  return key !== null && isSigned
}

function whyNobodySigned(signers: readonly PreparedCertificate[]): string {
  if (signers.length === 0) return 'no certificate is known to verify the signature with'
  const unsound = signers.map((each) => each.unsound).find((each) => each !== null)
  const reason = 'the signature is not of any certificate that is known for the partner'
  return unsound === undefined ? reason : `${reason}; of one of them ${unsound}`
}

function findSigner(signed: Signature, signers: readonly PreparedCertificate[]): Signer | null {
  const { signer, signatureAlgorithm, signedAttributes, signature } = signed
  const found = signers.filter(
    ({ publicKey, unsound }) =>
      unsound === null && isSignedBy(publicKey, signatureAlgorithm, signedAttributes, signature),
  )
  const shown = found.find((each) => matchesIdentifier(each, signer)) ?? found[0]
  return shown === undefined ? null : { certificate: shown.der, certificates: found.map(({ der }) => der) }
}
