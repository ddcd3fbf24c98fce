import { query, type Queryable } from '../postgres/pool.ts'
import { certificateJson, tlsCertificateJson } from '../sql/certificate-row.ts'
import type { PartnershipRow } from '../sql/partnership.ts'

/** What the check of a connection says of a certificate. Times are RFC 3339. */
export interface CheckedCertificate {
  readonly id: number
  readonly common_name: string
  readonly not_before: string
  readonly not_after: string
  readonly has_key: boolean
  readonly key_algorithm: string
  readonly key_size: number
}

/** An organization that may send to the partner, with its certificates. */
export interface SendingOrganization {
  readonly name: string
  readonly has_profile: boolean
  readonly signing: CheckedCertificate | null
  readonly decryption: CheckedCertificate | null
}

/** Everything that a connection to a partner needs, as it is stored now. */
export interface ConnectionFacts extends Pick<
  PartnershipRow,
  | 'partner_id'
  | 'partner'
  | 'endpoint'
  | 'http_basic_username'
  | 'secrets'
  | 'signing_algorithm'
  | 'encryption_algorithm'
  | 'receipt_mode'
  | 'receipt_signed'
  | 'require_signed'
  | 'tls_client'
  | 'tls_ca'
  | 'tls_verify_host_name'
  | 'accept_expired_certificates'
> {
  readonly checked: {
    readonly encryption: CheckedCertificate | null
    readonly signing: CheckedCertificate | null
    readonly tls_client: CheckedCertificate | null
    readonly tls_ca: CheckedCertificate | null
  }
  /** Whether routes to the partner name the organizations; else each that has a profile is among them. */
  readonly routed: boolean
  readonly organizations: readonly SendingOrganization[]
}

/**
 * The partner's profile with what belongs to it, or null when there is none. The organizations are those that routes to
 * the partner name; where none is named, as a route from any party names none, all that have a profile.
 */
export async function connectionFacts(
  on: Queryable,
  partnerId: number,
  senderType: string,
): Promise<ConnectionFacts | null> {
  const [row] = await query<ConnectionFacts>(
    on,
    CONNECTION_FACTS,
    [partnerId, senderType],
    'connection-facts',
  )
  return row ?? null
}

const checked = (column: string): string => `(
  select json_build_object('id', c.id, 'common_name', c.common_name, 'not_before', c.not_before,
    'not_after', c.not_after, 'has_key', c.private_key is not null,
    'key_algorithm', c.key_algorithm, 'key_size', c.key_size)
  from certificate c where c.id = ${column})`

const CONNECTION_FACTS = `
with profile as (
  select p.id as partner_id, p.name as partner, r.* from as2_remote_profile r
  join partner p on p.id = r.business_partner_id where p.id = $1
), named as (
  select distinct o.id from profile p join route r on r."to" in (p.partner, '*')
  join plugin_configuration c on c.name = r.target_plugin and c.type = $2
  join organization o on o.name = r."from"
), organizations as (
  select o.name, l.local_organization_id is not null as has_profile,
    l.signing_certificate_id, l.decryption_certificate_id
  from organization o left join as2_local_profile l on l.local_organization_id = o.id
  where case when exists (select from named) then o.id in (select id from named)
    else l.local_organization_id is not null end
)
select r.partner_id, r.partner, r.endpoint, r.http_basic_username, r.secrets, r.signing_algorithm,
  r.encryption_algorithm, r.receipt_mode, r.receipt_signed, r.require_signed, r.tls_verify_host_name,
  r.accept_expired_certificates,
  ${tlsCertificateJson('r.tls_client_certificate_id')} as tls_client,
  ${certificateJson('r.tls_ca_certificate_id')} as tls_ca,
  json_build_object(
    'encryption', ${checked('r.partner_certificate_id')},
    'signing', ${checked('coalesce(r.partner_signing_certificate_id, r.partner_certificate_id, r.previous_partner_signing_certificate_id)')},
    'tls_client', ${checked('r.tls_client_certificate_id')},
    'tls_ca', ${checked('r.tls_ca_certificate_id')}) as checked,
  exists (select from named) as routed,
  (select coalesce(json_agg(json_build_object('name', o.name, 'has_profile', o.has_profile,
    'signing', ${checked('o.signing_certificate_id')},
    'decryption', ${checked('o.decryption_certificate_id')}) order by o.name), '[]')
    from organizations o) as organizations
from profile r`
