import type { CertificateRow } from '../../../storage/sql/certificate-row.ts'
import { dayOf } from '../connection-check/words.ts'
import type { Partnership } from './partnership.ts'
import type { Signer } from '../protocol/cms/verification.ts'
import type { IncomingFacts } from '../protocol/incoming.ts'
import { Refusal } from '../protocol/refusal.ts'

/** The clocks of partners differ: a certificate may have been made a moment ahead of ours. */
const TOLERANCE_MS = 5 * 60_000

/** What keeps a certificate from counting now, with its name; null when nothing does. */
export function invalidity(
  { id, common_name, not_before, not_after }: CertificateRow,
  now: Date,
): string | null {
  const named = `the certificate ${common_name} (id ${id})`
  if (now.getTime() + TOLERANCE_MS < Date.parse(not_before)) {
    return `${named} is valid from ${dayOf(not_before)} on only`
  }
  if (now.getTime() - TOLERANCE_MS > Date.parse(not_after)) return `${named} expired on ${dayOf(not_after)}`
  return null
}

/**
 * The same of who signed for the partner; null for what is not signed. Where certificates share the key, one that counts
 * is enough, whichever of them the signature names; where none does, it is told of the one that is named.
 */
export function invalidityOfSigner(
  { row }: Pick<Partnership, 'row'>,
  signer: Signer | null,
  now: Date,
): string | null {
  if (signer === null) return null
  const rows = [row.partner_signing, row.previous_partner_signing].filter((each) => each !== null)
  const reasons: string[] = []
  for (const der of [signer.certificate, ...signer.certificates]) {
    const found = rows.find((each) => der.equals(Buffer.from(each.der, 'base64')))
    const invalid = found === undefined ? null : invalidity(found, now)
    if (invalid === null) return null
    reasons.push(invalid)
  }
  return reasons[0] ?? null
}

/**
 * A signature by a certificate that does not count refuses the message, unless the profile lets it count. Then the
 * answer is what the history is to tell of it.
 */
export function checkSigner(partnership: Partnership, incoming: IncomingFacts, now: Date): string | null {
  const invalid = invalidityOfSigner(partnership, incoming.signer, now)
  if (invalid === null) return null
  if (partnership.row.accept_expired_certificates) return `Accepted, though ${invalid}`
  throw new Refusal('authentication-failed', `${invalid}, and the message is signed with it`, incoming.mic)
}
