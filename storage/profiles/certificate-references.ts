import { X509Certificate } from 'node:crypto'
import { LockMode } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { reference } from '../../runtime/endpoint/paging.ts'
import { CertificateEntity, type Certificate } from '../certificates/certificate.ts'

interface UseFacts {
  /** Whether we need its private key. */
  readonly withKey: boolean
  /** Kinds of keys (node:crypto) that serve; null for all. */
  readonly keys: readonly string[] | null
  /** What must be, when the key is of another kind. */
  readonly rule: string
}

/**
 * What a record needs a certificate for. What cannot be done with its key is refused when the record is saved, not when
 * a message waits: signatures and the encryption of content keys are made with RSA and with elliptic curves.
 */
const USES = {
  sign: { withKey: true, keys: ['rsa', 'ec'], rule: 'must have an RSA or EC key to sign with' },
  decrypt: { withKey: true, keys: ['rsa', 'ec'], rule: 'must have an RSA or EC key to decrypt with' },
  encrypt: { withKey: false, keys: ['rsa', 'ec'], rule: 'must have an RSA or EC key to encrypt to' },
  verify: {
    withKey: false,
    keys: ['rsa', 'rsa-pss', 'ec'],
    rule: 'must have an RSA or EC key to verify with',
  },
  /** Shows who we are in TLS. */
  identify: { withKey: true, keys: null, rule: '' },
  /** Is what the TLS certificate of a partner is checked against. */
  trust: { withKey: false, keys: null, rule: '' },
} as const satisfies Record<string, UseFacts>

export type CertificateUse = keyof typeof USES

/** A shorter key is broken, and cannot carry every combination of digest and padding. */
const LEAST_RSA_BITS = 1024

/** Those that the engine works with: of prime order and 224 bits or more. */
const CURVES: readonly string[] = [
  'prime256v1',
  'secp224r1',
  'secp256k1',
  'secp384r1',
  'secp521r1',
  'brainpoolP256r1',
  'brainpoolP320r1',
  'brainpoolP384r1',
  'brainpoolP512r1',
]

/**
 * The refusals of a record's references to certificates: each must exist, hold a private key where it signs, decrypts
 * or identifies us, and have a key that serves. The values may be unchecked; those that can be no reference are passed
 * over. The shared lock keeps the certificates until the record is committed.
 */
export async function refusalsOfCertificates(
  em: EntityManager,
  values: Readonly<Record<string, unknown>>,
  uses: Readonly<Record<string, CertificateUse>>,
): Promise<Record<string, string>> {
  const references = referencesIn(values, Object.keys(uses))
  const ids = Object.values(references)
  if (ids.length === 0) return {}
  const certificates = await em.find(
    CertificateEntity,
    { id: { $in: ids } },
    { lockMode: LockMode.PESSIMISTIC_READ, orderBy: { id: 'asc' } },
  )
  const byId = new Map(certificates.map((certificate) => [certificate.id, certificate]))
  const details: Record<string, string> = {}
  for (const [property, use] of Object.entries(uses)) {
    const id = references[property]
    if (id === undefined) continue
    const certificate = byId.get(id)
    const refusal =
      certificate === undefined ? `there is no certificate ${id}` : refusalOf(certificate, USES[use])
    if (refusal !== null) details[property] = refusal
  }
  return details
}

function refusalOf(certificate: Certificate, { withKey, keys, rule }: UseFacts): string | null {
  const named = `the certificate ${certificate.id} (${certificate.common_name})`
  if (withKey && typeof certificate.private_key !== 'string') return `${named} has no private key`
  if (keys === null) return null
  const { asymmetricKeyType: kind = 'unknown', asymmetricKeyDetails: details } = new X509Certificate(
    certificate.der,
  ).publicKey
  if (!keys.includes(kind)) return `${rule}; ${named} has one of the kind ${KIND_NAMES[kind] ?? kind}`
  if (kind.startsWith('rsa') && certificate.key_size < LEAST_RSA_BITS) {
    return `must have an RSA key of at least ${LEAST_RSA_BITS} bits; that of ${named} has ${certificate.key_size}`
  }
  const curve = details?.namedCurve ?? 'one without a name'
  if (kind === 'ec' && !CURVES.includes(curve)) {
    return `must have an EC key on one of the curves ${CURVES.join(', ')}; that of ${named} is on ${curve}`
  }
  return null
}

/** As certificates are shown. */
const KIND_NAMES: Readonly<Record<string, string>> = {
  rsa: 'RSA',
  'rsa-pss': 'RSA for PSS alone',
  ec: 'EC',
  ed25519: 'Ed25519',
}

/** The values that can be references: what else a body has under these names is refused by its schema. */
export function referencesIn(
  values: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Record<string, number> {
  const found: Record<string, number> = {}
  for (const name of names) {
    const id = reference.safeParse(values[name])
    if (id.success) found[name] = id.data
  }
  return found
}
