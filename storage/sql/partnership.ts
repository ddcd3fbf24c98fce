import { query, type Queryable } from '../postgres/pool.ts'
import {
  certificateJson as certificate,
  tlsCertificateJson,
  type CertificateRow,
  type TlsCertificateRow,
} from './certificate-row.ts'

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
  readonly tls_client: TlsCertificateRow | null
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
  readonly as2_version: '1.1' | '1.2' | '1.3'
  /** How digests are spelt. */
  readonly micalg_format: 'sha-256' | 'sha256'
  readonly oaep_digest: 'SHA1' | 'SHA256'
  readonly content_transfer_encoding: 'binary' | 'base64'
  readonly chunked_transfer: boolean
  readonly send_file_name: boolean
  readonly receipt_signing_algorithm: 'Auto' | 'SHA1' | 'SHA256' | 'SHA384' | 'SHA512'
  readonly accept_expired_certificates: boolean
  readonly tls_verify_host_name: boolean
}

/** What a pair is looked up by: names of an organization and a partner, or our identifier of AS2 and the partner's. */
export interface Pair {
  readonly ours: string
  readonly theirs: string
}

/** The pairs of organizations and partners, by their names, in any order. */
export function partnershipsByName(on: Queryable, pairs: readonly Pair[]): Promise<PartnershipRow[]> {
  return query<PartnershipRow>(on, BY_NAME, namesOf(pairs), 'partnerships-by-name')
}

/** The pairs by the identifiers of the AS2 headers, in any order. */
export function partnershipsByAs2Id(on: Queryable, pairs: readonly Pair[]): Promise<PartnershipRow[]> {
  return query<PartnershipRow>(on, BY_AS2_ID, namesOf(pairs), 'partnerships-by-as2id')
}

/** The pair of an organization and a partner, by their names. */
export async function partnershipByName(
  on: Queryable,
  organization: string,
  partner: string,
): Promise<PartnershipRow | null> {
  const [row] = await partnershipsByName(on, [{ ours: organization, theirs: partner }])
  return row ?? null
}

/** The pair by the identifiers of the AS2 headers: the partner's own and ours. */
export async function partnershipByAs2Id(
  on: Queryable,
  remoteAs2Id: string,
  localAs2Id: string,
): Promise<PartnershipRow | null> {
  const [row] = await partnershipsByAs2Id(on, [{ ours: localAs2Id, theirs: remoteAs2Id }])
  return row ?? null
}

/** What the organization with an identifier signs with, whoever the partner is; null for none. */
export async function signingByAs2Id(on: Queryable, localAs2Id: string): Promise<CertificateRow | null> {
  const [row] = await query<{ signing: CertificateRow | null }>(
    on,
    `select ${certificate('l.signing_certificate_id')} as signing from as2_local_profile l where l.as2id = $1`,
    [localAs2Id],
    'signing-by-as2id',
  )
  return row?.signing ?? null
}

function namesOf(pairs: readonly Pair[]): [string[], string[]] {
  return [pairs.map(({ ours }) => ours), pairs.map(({ theirs }) => theirs)]
}

const PARTNERSHIP = `
select o.name as organization, p.id as partner_id, p.name as partner, l.as2id as local_as2id,
  ${certificate('l.signing_certificate_id')} as signing,
  ${certificate('l.decryption_certificate_id')} as decryption,
  ${certificate('l.previous_decryption_certificate_id')} as previous_decryption,
  r.as2id as remote_as2id, r.endpoint, r.subject, r.http_basic_username, r.secrets,
  ${certificate('r.partner_certificate_id')} as partner_encryption,
  ${certificate('coalesce(r.partner_signing_certificate_id, r.partner_certificate_id)')} as partner_signing,
  ${certificate('r.previous_partner_signing_certificate_id')} as previous_partner_signing,
  ${tlsCertificateJson('r.tls_client_certificate_id')} as tls_client,
  ${certificate('r.tls_ca_certificate_id')} as tls_ca,
  r.compression, r.signing_algorithm, r.signature_scheme, r.encryption_algorithm, r.key_transport, r.receipt_mode,
  r.receipt_signed, r.receipt_timeout_hours, r.require_signed, r.require_encrypted, r.content_type,
  r.as2_version, r.micalg_format, r.oaep_digest, r.content_transfer_encoding, r.chunked_transfer, r.send_file_name,
  r.receipt_signing_algorithm, r.accept_expired_certificates, r.tls_verify_host_name
from as2_local_profile l
join organization o on o.id = l.local_organization_id
cross join as2_remote_profile r
join partner p on p.id = r.business_partner_id`

const WANTED = 'join unnest($1::text[], $2::text[]) as wanted (ours, theirs)'
const BY_NAME = `${PARTNERSHIP} ${WANTED} on wanted.ours = o.name and wanted.theirs = p.name`
const BY_AS2_ID = `${PARTNERSHIP} ${WANTED} on wanted.ours = l.as2id and wanted.theirs = r.as2id`
