import type {
  CheckedCertificate,
  ConnectionFacts,
  SendingOrganization,
} from '../../../storage/profiles/connection-facts.ts'
import { hasWeakKey } from '../../../storage/certificates/weak-keys.ts'
import { inboundProblem, receiverProblem } from './receipts.ts'
import { Problem, type Found } from './steps.ts'
import { dayOf, enumerated } from './words.ts'

interface Need {
  readonly certificate: CheckedCertificate | null
  /** What it is for, after "which". */
  readonly purpose: string
  readonly withKey: boolean
  /** Whether it counts outside of its validity. */
  readonly lenient?: boolean
  /** Said when there is none; null where it may be missing. */
  readonly missing: string | null
}

export interface Circumstances {
  readonly now: Date
  /** Where asynchronous receipts are asked for; null where they cannot be. */
  readonly receiptUrl: string | null
}

/**
 * Whether every certificate that the partnership needs is there, is valid now and holds the key that it must, and a
 * receiver for receipts. Organizations that routes name must all be able to send; of others it is enough that one is.
 */
export function checkedCertificates(facts: ConnectionFacts, { now, receiptUrl }: Circumstances): Found<null> {
  const ofPartner = needsOfPartner(facts)
  const organizations = facts.organizations.map((each) => {
    const needs = needsOfOrganization(each, facts)
    return { needs, problems: problemsOf(needs, now) }
  })
  const able = organizations.filter(({ problems }) => problems.size === 0)
  const unable = organizations.filter(({ problems }) => problems.size > 0)
  const mustAll = facts.routed || able.length === 0
  // A certificate may be needed twice, and what is wrong with it is told once.
  const problems = new Map([...problemsOf(ofPartner, now), ...(mustAll ? merged(unable) : [])])
  const receiver = receiverProblem(facts, receiptUrl)
  if (receiver !== null) problems.set('receiver', receiver)
  if (problems.size > 0) throw new Problem(enumerated([...problems.values()], '; '))
  const needs = [...ofPartner, ...able.flatMap((each) => each.needs)]
  const named = needs.flatMap(({ certificate }) => (certificate === null ? [] : [described(certificate)]))
  const found = named.length === 0 ? 'none needed' : enumerated([...new Set(named)], ', ')
  const others = enumerated([...merged(unable).values()], '; ')
  const cannot = others === '' ? null : `organizations that cannot send, and no route names: ${others}`
  const told = [found, cannot, inboundProblem(facts)].filter((each) => each !== null)
  return { detail: told.join('; '), value: null }
}

type Problems = ReadonlyMap<number | string, string>

function problemsOf(needs: readonly Need[], now: Date): Problems {
  const problems = new Map<number | string, string>()
  for (const need of needs) {
    const problem = problemOf(need, now)
    const key = need.certificate?.id ?? need.purpose
    if (problem !== null && !problems.has(key)) problems.set(key, problem)
  }
  return problems
}

function merged(organizations: readonly { readonly problems: Problems }[]): Problems {
  return new Map(organizations.flatMap(({ problems }) => [...problems]))
}

function needsOfPartner(facts: ConnectionFacts): Need[] {
  const { partner, checked, encryption_algorithm, receipt_mode, receipt_signed, endpoint } = facts
  const lenient = facts.accept_expired_certificates
  const isSecure = endpoint.toLowerCase().startsWith('https:')
  const encryption = {
    certificate: encryption_algorithm === 'None' ? null : checked.encryption,
    purpose: `encrypts to ${partner}`,
    withKey: false,
    lenient,
    missing: encryption_algorithm === 'None' ? null : `there is no certificate to encrypt to ${partner} with`,
  }
  const wantsSignature = receipt_mode !== 'None' && receipt_signed
  const signing = {
    certificate: checked.signing,
    purpose: `verifies the signatures of ${partner}`,
    withKey: false,
    lenient,
    missing: wantsSignature
      ? `there is no certificate to verify the signed receipts of ${partner} with`
      : null,
  }
  const client = {
    certificate: isSecure ? checked.tls_client : null,
    purpose: 'identifies us in TLS',
    withKey: true,
    missing: null,
  }
  const anchor = {
    certificate: isSecure ? checked.tls_ca : null,
    purpose: `is what the TLS of ${partner} is checked against`,
    withKey: false,
    missing: null,
  }
  return [encryption, signing, client, anchor]
}

function needsOfOrganization(
  { name, has_profile, signing, decryption }: SendingOrganization,
  { signing_algorithm }: ConnectionFacts,
): Need[] {
  const purpose = `signs for ${name}`
  if (!has_profile) {
    return [{ certificate: null, purpose, withKey: true, missing: `${name} has no AS2 profile` }]
  }
  const signs = signing_algorithm !== 'None'
  return [
    {
      certificate: signs ? signing : null,
      purpose,
      withKey: true,
      missing: signs ? `the AS2 profile of ${name} has no certificate to sign with` : null,
    },
    { certificate: decryption, purpose: `decrypts for ${name}`, withKey: true, missing: null },
  ]
}

function problemOf({ certificate, purpose, withKey, lenient, missing }: Need, now: Date): string | null {
  if (certificate === null) return missing
  const { id, common_name, not_before, not_after, has_key } = certificate
  const named = `the certificate ${common_name} (id ${id}), which ${purpose},`
  if (withKey && !has_key) return `${named} has no private key`
  if (lenient === true) return null
  if (now < new Date(not_before)) return `${named} is valid from ${dayOf(not_before)} on only`
  if (now >= new Date(not_after)) return `${named} expired on ${dayOf(not_after)}`
  return null
}

/** What works and should be better is told, too. */
function described(certificate: CheckedCertificate): string {
  const { common_name, not_after, key_size } = certificate
  const weak = hasWeakKey(certificate) ? `, with an RSA key of only ${key_size} bits` : ''
  return `${common_name} until ${dayOf(not_after)}${weak}`
}
