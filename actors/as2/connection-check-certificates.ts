import type {
  CheckedCertificate,
  ConnectionFacts,
  SendingOrganization,
} from '../../storage/profiles/connection-facts.ts'
import { Problem, type Found } from './connection-check-steps.ts'
import { dayOf, enumerated } from './connection-check-words.ts'

interface Need {
  readonly certificate: CheckedCertificate | null
  /** What it is for, after "which". */
  readonly purpose: string
  readonly withKey: boolean
  /** Said when there is none; null where it may be missing. */
  readonly missing: string | null
}

/**
 * Whether every certificate that the partnership needs is there, is valid now and holds the key that it must.
 * Organizations that routes name must all be able to send; of others it is enough that one is.
 */
export function checkedCertificates(facts: ConnectionFacts, now: Date): Found<null> {
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
  if (problems.size > 0) throw new Problem(enumerated([...problems.values()], '; '))
  const needs = [...ofPartner, ...able.flatMap((each) => each.needs)]
  const named = needs.flatMap(({ certificate }) => (certificate === null ? [] : [described(certificate)]))
  const found = named.length === 0 ? 'none needed' : enumerated([...new Set(named)], ', ')
  if (unable.length === 0) return { detail: found, value: null }
  const others = enumerated([...merged(unable).values()], '; ')
  return { detail: `${found}; organizations that cannot send, and no route names: ${others}`, value: null }
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
  const isSecure = endpoint.toLowerCase().startsWith('https:')
  const encryption = {
    certificate: encryption_algorithm === 'None' ? null : checked.encryption,
    purpose: `encrypts to ${partner}`,
    withKey: false,
    missing: encryption_algorithm === 'None' ? null : `there is no certificate to encrypt to ${partner} with`,
  }
  const wantsSignature = receipt_mode !== 'None' && receipt_signed
  const signing = {
    certificate: checked.signing,
    purpose: `verifies the signatures of ${partner}`,
    withKey: false,
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

function problemOf({ certificate, purpose, withKey, missing }: Need, now: Date): string | null {
  if (certificate === null) return missing
  const { id, common_name, not_before, not_after, has_key } = certificate
  const named = `the certificate ${common_name} (id ${id}), which ${purpose},`
  if (withKey && !has_key) return `${named} has no private key`
  if (now < new Date(not_before)) return `${named} is valid from ${dayOf(not_before)} on only`
  if (now >= new Date(not_after)) return `${named} expired on ${dayOf(not_after)}`
  return null
}

function described({ common_name, not_after }: CheckedCertificate): string {
  return `${common_name} until ${dayOf(not_after)}`
}
