import { defineEntity, p, type InferEntity } from '@mikro-orm/core'

export const COMPRESSIONS = ['None', 'BeforeSigning', 'AfterSigning'] as const
export const SIGNING_ALGORITHMS = ['None', 'SHA1', 'SHA256', 'SHA384', 'SHA512'] as const
export const SIGNATURE_SCHEMES = ['PKCS1', 'PSS'] as const
export const ENCRYPTION_ALGORITHMS = [
  'None',
  '3DES',
  'AES128-CBC',
  'AES192-CBC',
  'AES256-CBC',
  'AES128-GCM',
  'AES192-GCM',
  'AES256-GCM',
] as const
export const KEY_TRANSPORTS = ['PKCS1', 'OAEP'] as const
export const RECEIPT_MODES = ['None', 'Sync', 'Async'] as const
export const AS2_VERSIONS = ['1.1', '1.2', '1.3'] as const
export const MICALG_FORMATS = ['sha-256', 'sha256'] as const
export const OAEP_DIGESTS = ['SHA1', 'SHA256'] as const
export const CONTENT_TRANSFER_ENCODINGS = ['binary', 'base64'] as const
export const RECEIPT_SIGNING_ALGORITHMS = ['Auto', 'SHA1', 'SHA256', 'SHA384', 'SHA512'] as const

/** How a partner speaks AS2 and how we speak to it. Its id is the partner's. */
export const RemoteProfileEntity = defineEntity({
  name: 'As2RemoteProfile',
  tableName: 'as2_remote_profile',
  properties: {
    business_partner_id: p.integer().primary(),
    as2id: p.text(),
    endpoint: p.text(),
    subject: p.text(),
    http_basic_username: p.text(),
    /** Sealed RemoteProfileSecrets. */
    secrets: p.text(),
    partner_certificate_id: p.integer().nullable(),
    partner_signing_certificate_id: p.integer().nullable(),
    previous_partner_signing_certificate_id: p.integer().nullable(),
    tls_client_certificate_id: p.integer().nullable(),
    tls_ca_certificate_id: p.integer().nullable(),
    compression: p.enum(COMPRESSIONS),
    signing_algorithm: p.enum(SIGNING_ALGORITHMS),
    signature_scheme: p.enum(SIGNATURE_SCHEMES),
    encryption_algorithm: p.enum(ENCRYPTION_ALGORITHMS),
    key_transport: p.enum(KEY_TRANSPORTS),
    receipt_mode: p.enum(RECEIPT_MODES),
    receipt_signed: p.boolean(),
    receipt_timeout_hours: p.integer(),
    require_signed: p.boolean(),
    require_encrypted: p.boolean(),
    content_type: p.text(),
    as2_version: p.enum(AS2_VERSIONS),
    micalg_format: p.enum(MICALG_FORMATS),
    oaep_digest: p.enum(OAEP_DIGESTS),
    content_transfer_encoding: p.enum(CONTENT_TRANSFER_ENCODINGS),
    chunked_transfer: p.boolean(),
    send_file_name: p.boolean(),
    receipt_signing_algorithm: p.enum(RECEIPT_SIGNING_ALGORITHMS),
    accept_expired_certificates: p.boolean(),
    tls_verify_host_name: p.boolean(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type RemoteProfile = InferEntity<typeof RemoteProfileEntity>

export const REMOTE_CERTIFICATE_FIELDS = [
  'partner_certificate_id',
  'partner_signing_certificate_id',
  'previous_partner_signing_certificate_id',
  'tls_client_certificate_id',
  'tls_ca_certificate_id',
] as const satisfies readonly (keyof RemoteProfile)[]
