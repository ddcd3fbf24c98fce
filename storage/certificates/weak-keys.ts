import { query, type Queryable } from '../postgres/pool.ts'
import { LOCAL_CERTIFICATE_FIELDS } from '../profiles/local-profile.ts'
import { REMOTE_CERTIFICATE_FIELDS } from '../profiles/remote-profile.ts'

/** RFC 8301 and the successor of RFC 4130 ask for as many; a shorter key still works. */
export const LEAST_SOUND_RSA_BITS = 2048

interface KeyFacts {
  readonly key_algorithm: string
  readonly key_size: number
}

export function hasWeakKey({ key_algorithm, key_size }: KeyFacts): boolean {
  return key_algorithm === 'RSA' && key_size < LEAST_SOUND_RSA_BITS
}

/** What an operator should know of a certificate before it is used. */
export function warningsOf(certificate: KeyFacts): string[] {
  if (!hasWeakKey(certificate)) return []
  return [
    `The RSA key has ${certificate.key_size} bits. Keys of less than ${LEAST_SOUND_RSA_BITS} can be broken, and partners may refuse them.`,
  ]
}

export interface WeakCertificate extends KeyFacts {
  readonly id: number
  readonly common_name: string
}

/** The certificates with weak keys that AS2 profiles name. */
export async function weakCertificatesInUse(on: Queryable): Promise<readonly WeakCertificate[]> {
  return query<WeakCertificate>(on, WEAK_IN_USE, [LEAST_SOUND_RSA_BITS], 'weak-certificates-in-use')
}

const used = (columns: readonly string[]): string => columns.map((column) => `p.${column}`).join(', ')

const WEAK_IN_USE = `
select c.id, c.common_name, c.key_algorithm, c.key_size from certificate c
where c.key_algorithm = 'RSA' and c.key_size < $1 and (
  exists (select from as2_local_profile p where c.id in (${used(LOCAL_CERTIFICATE_FIELDS)}))
  or exists (select from as2_remote_profile p where c.id in (${used(REMOTE_CERTIFICATE_FIELDS)})))
order by c.id`
