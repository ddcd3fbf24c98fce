/** Whether content is signed by one of the certificates a profile names. */
import { timingSafeEqual } from 'node:crypto'
import type { SignatureScheme, SigningDigest } from '../algorithms.ts'
import { matchesIdentifier, prepareCertificate } from '../certificate.ts'
import { digest, micOfDigest } from '../mic.ts'
import type { Mic } from '../mic.ts'
import { Refusal } from '../refusal.ts'
import { isSignedBy } from './signature.ts'
import type { SignedData } from './signed-data.ts'

export interface Verification {
  readonly digest: SigningDigest
  readonly scheme: SignatureScheme
  /** Over the content as the signer saw it. */
  readonly mic: Mic
  /** The one of the given certificates that signed, DER. */
  readonly certificate: Buffer
}

/**
 * Verifies a signature over the content.
 * @param forms the content as received, then other forms of it in which a signer may have seen it
 * @param signers the only certificates that count, DER; the one that the signature names is tried first
 * @throws Refusal `authentication-failed` or `integrity-check-failed`, with the MIC of the content as received
 */
export function verifySignature(
  signed: SignedData,
  forms: Iterable<Buffer>,
  signers: readonly Buffer[],
): Verification {
  const { digestAlgorithm, signatureAlgorithm, messageDigest } = signed
  let received: Mic | null = null
  let mic: Mic | null = null
  for (const form of forms) {
    const value = digest(digestAlgorithm, form)
    received ??= micOfDigest(digestAlgorithm, value)
    if (value.length === messageDigest.length && timingSafeEqual(value, messageDigest)) {
      mic = micOfDigest(digestAlgorithm, value)
      break
    }
  }
  const certificate = findSigner(signed, signers)
  if (certificate === null) {
    const reason =
      signers.length === 0
        ? 'no certificate is known to verify the signature with'
        : 'the signature is not of any certificate that is known for the partner'
    throw new Refusal('authentication-failed', reason, received)
  }
  if (mic === null) {
    throw new Refusal('integrity-check-failed', 'the content differs from what was signed', received)
  }
  return { digest: digestAlgorithm, scheme: signatureAlgorithm.scheme, mic, certificate }
}

function findSigner(signed: SignedData, signers: readonly Buffer[]): Buffer | null {
  const { signer, signatureAlgorithm, signedAttributes, signature } = signed
  const prepared = signers.map(prepareCertificate)
  const named = prepared.filter((each) => matchesIdentifier(each, signer))
  // A renewed certificate may keep its key, so the others count as well: the key decides, not the name.
  const ordered = [...named, ...prepared.filter((each) => !named.includes(each))]
  const found = ordered.find(({ publicKey }) =>
    isSignedBy(publicKey, signatureAlgorithm, signedAttributes, signature),
  )
  return found?.der ?? null
}
