import { LockMode } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { reference } from '../../runtime/endpoint/paging.ts'
import { CertificateEntity } from '../certificates/certificate.ts'

/**
 * The refusals of a record's references to certificates: each must exist, and hold a private key where it signs,
 * decrypts or identifies us. Where `withRsa` says so, its key must be RSA: keys are transported to it, or we sign
 * with it, by RSA alone. The shared lock keeps the certificates until the record is committed.
 */
export async function refusalsOfCertificates(
  em: EntityManager,
  references: Readonly<Record<string, number | null | undefined>>,
  withKey: readonly string[],
  withRsa: readonly string[] = [],
): Promise<Record<string, string>> {
  const ids = Object.values(references).filter((id) => typeof id === 'number')
  if (ids.length === 0) return {}
  const certificates = await em.find(
    CertificateEntity,
    { id: { $in: ids } },
    { lockMode: LockMode.PESSIMISTIC_READ, orderBy: { id: 'asc' } },
  )
  const byId = new Map(certificates.map((certificate) => [certificate.id, certificate]))
  const details: Record<string, string> = {}
  for (const [property, id] of Object.entries(references)) {
    if (typeof id !== 'number') continue
    const certificate = byId.get(id)
    if (certificate === undefined) details[property] = `there is no certificate ${id}`
    else if (withKey.includes(property) && typeof certificate.private_key !== 'string') {
      details[property] = `the certificate ${id} has no private key`
    } else if (withRsa.includes(property) && certificate.key_algorithm !== 'RSA') {
      details[property] =
        `must have an RSA key; that of the certificate ${id} is ${certificate.key_algorithm}`
    }
  }
  return details
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
