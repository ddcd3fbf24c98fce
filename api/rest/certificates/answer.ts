import { z } from 'zod'
import { timestamp } from '../../../runtime/endpoint/paging.ts'
import {
  CERTIFICATE_STATES,
  certificateSchema,
  daysRemaining,
  EXPIRING_DAYS,
  stateOf,
  type Certificate,
} from '../../../storage/certificates/certificate.ts'
import { warningsOf } from '../../../storage/certificates/weak-keys.ts'
import { LONGEST_VALUE } from '../../../storage/certificates/reading/extensions.ts'
import { KEY_ALGORITHMS, type CertificateFacts } from '../../../storage/certificates/reading/facts.ts'

/** How a certificate looks in every answer, stored or found in an upload. */

const hex = (digits: number) =>
  z
    .string()
    .length(digits)
    .regex(/^[0-9a-f]*$/)

const extension = z.object({
  oid: z
    .string()
    .describe('Object identifier.')
    .meta({ examples: ['2.5.29.15'] }),
  name: z
    .string()
    .describe('Its name, where it is known.')
    .meta({ examples: ['keyUsage'] }),
  critical: z.boolean().describe('Whether who does not know it must refuse the certificate.'),
  value: z
    .string()
    .describe(
      `What it says. Of a value of more than ${LONGEST_VALUE} characters the first ones, and \` …\` as its end.`,
    )
    .meta({ examples: ['digitalSignature'] }),
})

/** What a certificate says of itself, and whether there is a key with it. */
export const certificateFacts = {
  common_name: z
    .string()
    .describe('Common name of the subject. Empty when it has none.')
    .meta({ examples: ['Globex EDI'] }),
  subject: z
    .string()
    .describe('Distinguished name of the subject.')
    .meta({ examples: ['C=DE, O=Globex, CN=Globex EDI'] }),
  issuer: z
    .string()
    .describe('Distinguished name of the issuer.')
    .meta({ examples: ['C=DE, O=Globex, CN=Globex Issuing CA'] }),
  serial_number: z
    .string()
    .describe('Hexadecimal.')
    .meta({ examples: ['4b8f0c2d9e'] }),
  not_before: timestamp.describe(
    'When the validity begins. It may lie in the future: `state` does not tell.',
  ),
  not_after: timestamp.describe('When the validity ends.'),
  state: z
    .enum(CERTIFICATE_STATES)
    .describe(
      `Tells of the end of the validity alone: \`expired\` after \`not_after\`, \`expiring\` within ${EXPIRING_DAYS} days of it, otherwise \`valid\`, also while \`not_before\` lies in the future.`,
    ),
  days_remaining: z.int().min(0).describe('Whole days of validity left; 0 when expired.'),
  has_private_key: z.boolean().describe('Whether there is a private key with it.'),
  private_key_matches: z
    .boolean()
    .describe(
      'Whether the private key belongs to the certificate: what it signed was verified. False without a key.',
    ),
  fingerprint_sha256: hex(64)
    .describe('Identifies the certificate: the SHA-256 of its DER form.')
    .meta({ examples: ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'] }),
  fingerprint_sha1: hex(40)
    .describe('The SHA-1 of its DER form, as some tools show it.')
    .meta({ examples: ['a94a8fe5ccb19ba61c4c0873d391e987982fbbd3'] }),
  key_algorithm: z.enum(KEY_ALGORITHMS).describe('Algorithm of the key.'),
  key_size: z
    .int()
    .describe('Size of the key in bits.')
    .meta({ examples: [2048] }),
  signature_algorithm: z
    .string()
    .describe("Algorithm of the issuer's signature.")
    .meta({ examples: ['sha256WithRSAEncryption'] }),
  is_ca: z
    .boolean()
    .describe('Whether it may sign other certificates.')
    .meta({ examples: [false] }),
  extensions: z.array(extension).describe('The extensions, in the order of the certificate.'),
  warnings: z
    .array(z.string())
    .describe('What speaks against its use: an RSA key of less than 2048 bits. Empty when nothing does.')
    .meta({ examples: [[]] }),
}

/** Properties that only a stored certificate has and nobody can set. */
export const storedFacts = { ...certificateFacts, created_at: timestamp, updated_at: timestamp }

export const certificateAnswer = z
  .object({ id: z.int(), ...certificateSchema.shape, ...storedFacts })
  .meta({ id: 'Certificate', description: 'A stored certificate, never its private key.' })

export function shownFacts(facts: CertificateFacts, hasKey: boolean, now: Date) {
  const { not_before, not_after, extensions } = facts
  return {
    common_name: facts.common_name,
    subject: facts.subject,
    issuer: facts.issuer,
    serial_number: facts.serial_number,
    not_before: not_before.toISOString(),
    not_after: not_after.toISOString(),
    state: stateOf(not_after, now),
    days_remaining: daysRemaining(not_after, now),
    has_private_key: hasKey,
    // A key that does not match is refused when it is uploaded.
    private_key_matches: hasKey,
    fingerprint_sha256: facts.fingerprint_sha256,
    fingerprint_sha1: facts.fingerprint_sha1,
    key_algorithm: facts.key_algorithm,
    key_size: facts.key_size,
    signature_algorithm: facts.signature_algorithm,
    is_ca: facts.is_ca,
    extensions: [...extensions],
    warnings: warningsOf(facts),
  }
}

export function shownCertificate(certificate: Certificate, now: Date) {
  const { id, description, private_key, created_at, updated_at } = certificate
  return {
    id,
    description,
    ...shownFacts(certificate, typeof private_key === 'string', now),
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
