import type { EntityManager } from '@mikro-orm/postgresql'
import { WaybillError } from '../../runtime/errors.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import { CertificateEntity } from './certificate.ts'
import type { FoundCertificate } from './reading/material.ts'
import { privateKeyContext } from './secrets.ts'

/** A certificate that was found in an upload, on its way to be stored. */
export interface NewCertificate {
  readonly found: Pick<FoundCertificate, 'der' | 'facts'>
  /** PKCS#8 DER of the key that belongs to it, or null. */
  readonly key: Uint8Array | null
  /** Not empty. */
  readonly description: string
}

/** The columns of a new record; the key is sealed. */
export function certificateValues({ found, key, description }: NewCertificate, box: SecretBox) {
  const context = privateKeyContext(found.facts.fingerprint_sha256)
  return {
    ...found.facts,
    description,
    der: Buffer.from(found.der),
    private_key: key === null ? null : box.seal(key, context),
  }
}

/** The ids of the certificates that are stored, by fingerprint. */
export async function storedIds(
  em: EntityManager,
  fingerprints: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const stored = await em.find(
    CertificateEntity,
    { fingerprint_sha256: { $in: [...fingerprints] } },
    { fields: ['id', 'fingerprint_sha256'] },
  )
  return new Map(stored.map(({ id, fingerprint_sha256 }) => [fingerprint_sha256, id]))
}

/** Throws a CERTIFICATE_EXISTS that names the first of these that is stored, in their order. */
export async function refuseStored(em: EntityManager, fingerprints: readonly string[]): Promise<void> {
  const ids = await storedIds(em, fingerprints)
  const existing = fingerprints.map((fingerprint) => ids.get(fingerprint)).find((id) => id !== undefined)
  if (existing === undefined) return
  const { common_name, description, private_key } = await em.findOneOrFail(CertificateEntity, {
    id: existing,
  })
  const name = [common_name, description].filter((text) => text !== '').join(', ')
  const key = private_key === null ? 'without a private key' : 'with its private key'
  throw new WaybillError(
    'CERTIFICATE_EXISTS',
    `The certificate is stored already as number ${existing} (${name}), ${key}`,
    { existing_id: existing },
  )
}
