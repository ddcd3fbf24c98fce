import { query, type Queryable } from '../postgres/pool.ts'

/** A certificate as a protocol uses it. `privateKey` is sealed PKCS#8 DER, or null. */
export interface CertificateRow {
  readonly id: number
  readonly fingerprint: string
  /** Base64 of the DER. */
  readonly der: string
  readonly private_key: string | null
  readonly not_after: string
}

/** Both profiles of an AS2 pair with the certificates they name. Either side may be missing one. */
export interface PartnershipRow {
  readonly organization: string
  readonly partner_id: number
  readonly partner: string
  readonly local_as2id: string
  readonly signing: CertificateRow | null
  readonly decryption: CertificateRow | null
  readonly previous_decryption: CertificateRow | null
  readonly remote_as2id: string
  readonly endpoint: string
  readonly subject: string
  readonly http_basic_username: string
  /** Sealed. */
  readonly secrets: string
  readonly partner_encryption: CertificateRow | null
  readonly partner_signing: CertificateRow | null
  readonly previous_partner_signing: CertificateRow | null
  readonly tls_client: CertificateRow | null
  readonly tls_ca: CertificateRow | null
  readonly compression: 'None' | 'BeforeSigning' | 'AfterSigning'
  readonly signing_algorithm: 'None' | 'SHA1' | 'SHA256' | 'SHA384' | 'SHA512'
  readonly signature_scheme: 'PKCS1' | 'PSS'
  readonly encryption_algorithm:
    'None' | '3DES' | 'AES128-CBC' | 'AES192-CBC' | 'AES256-CBC' | 'AES128-GCM' | 'AES192-GCM' | 'AES256-GCM'
  readonly key_transport: 'PKCS1' | 'OAEP'
  readonly receipt_mode: 'None' | 'Sync' | 'Async'
  readonly receipt_signed: boolean
  readonly receipt_timeout_hours: number
  readonly require_signed: boolean
  readonly require_encrypted: boolean
  readonly content_type: string
}

/** The pair of an organization and a partner, by their names. */
export async function partnershipByName(
  on: Queryable,
  organization: string,
  partner: string,
): Promise<PartnershipRow | null> {
  const [row] = await query<PartnershipRow>(on, BY_NAME, [organization, partner], 'partnership-by-name')
  return row ?? null
}

/** The pair by the identifiers of the AS2 headers: the partner's own and ours. */
export async function partnershipByAs2Id(
  on: Queryable,
  remoteAs2Id: string,
  localAs2Id: string,
): Promise<PartnershipRow | null> {
  const [row] = await query<PartnershipRow>(on, BY_AS2_ID, [localAs2Id, remoteAs2Id], 'partnership-by-as2id')
  return row ?? null
}

const certificate = (column: string): string => `(
  select json_build_object('id', c.id, 'fingerprint', c.fingerprint_sha256, 'der', encode(c.der, 'base64'),
    'private_key', c.private_key, 'not_after', c.not_after)
  from certificate c where c.id = ${column})`

const PARTNERSHIP = `
select o.name as organization, p.id as partner_id, p.name as partner, l.as2id as local_as2id,
  ${certificate('l.signing_certificate_id')} as signing,
  ${certificate('l.decryption_certificate_id')} as decryption,
  ${certificate('l.previous_decryption_certificate_id')} as previous_decryption,
  r.as2id as remote_as2id, r.endpoint, r.subject, r.http_basic_username, r.secrets,
  ${certificate('r.partner_certificate_id')} as partner_encryption,
  ${certificate('coalesce(r.partner_signing_certificate_id, r.partner_certificate_id)')} as partner_signing,
  ${certificate('r.previous_partner_signing_certificate_id')} as previous_partner_signing,
  ${certificate('r.tls_client_certificate_id')} as tls_client,
  ${certificate('r.tls_ca_certificate_id')} as tls_ca,
  r.compression, r.signing_algorithm, r.signature_scheme, r.encryption_algorithm, r.key_transport, r.receipt_mode,
  r.receipt_signed, r.receipt_timeout_hours, r.require_signed, r.require_encrypted, r.content_type
from as2_local_profile l
join organization o on o.id = l.local_organization_id
cross join as2_remote_profile r
join partner p on p.id = r.business_partner_id`

const BY_NAME = `${PARTNERSHIP} where o.name = $1 and p.name = $2`
const BY_AS2_ID = `${PARTNERSHIP} where l.as2id = $1 and r.as2id = $2`

export async function certificateById(on: Queryable, id: number): Promise<CertificateRow | null> {
  const [row] = await query<{ certificate: CertificateRow | null }>(
    on,
    `select ${certificate('$1::integer')} as certificate`,
    [id],
  )
  return row?.certificate ?? null
}
