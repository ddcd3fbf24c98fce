import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { httpHeaders } from '../../runtime/endpoint/http-headers.ts'
import { reference } from '../../runtime/endpoint/paging.ts'
import { targetUrl } from '../../runtime/endpoint/target-url.ts'
import { as2id } from './as2id.ts'

const COMPRESSIONS = ['None', 'BeforeSigning', 'AfterSigning'] as const
const SIGNING_ALGORITHMS = ['None', 'SHA1', 'SHA256', 'SHA384', 'SHA512'] as const
const SIGNATURE_SCHEMES = ['PKCS1', 'PSS'] as const
const ENCRYPTION_ALGORITHMS = [
  'None',
  '3DES',
  'AES128-CBC',
  'AES192-CBC',
  'AES256-CBC',
  'AES128-GCM',
  'AES192-GCM',
  'AES256-GCM',
] as const
const KEY_TRANSPORTS = ['PKCS1', 'OAEP'] as const
const RECEIPT_MODES = ['None', 'Sync', 'Async'] as const

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
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type RemoteProfile = InferEntity<typeof RemoteProfileEntity>

const certificate = reference.nullable().default(null)
const headerText = z
  .string()
  .max(500)
  // A line end would begin another header.
  .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })

/** Secure defaults: compressed, signed and encrypted, with a synchronous signed receipt. */
export const remoteProfileSchema = z
  .strictObject({
    business_partner_id: reference.describe('The partner that the profile belongs to.'),
    as2id: as2id.describe('The identifier of the partner in AS2 headers. Unique among remote profiles.'),
    endpoint: targetUrl.describe('Where the partner receives AS2 messages.'),
    subject: headerText
      .default('')
      .describe('The Subject header of messages; empty for the name of the file.'),
    http_basic_username: z
      .string()
      .max(200)
      .regex(/^[^:\p{Cc}]*$/u, { error: 'must not contain a colon or control characters' })
      .default('')
      .describe('User name of HTTP basic authentication; empty for none.'),
    http_basic_password: z.string().max(500).default('').describe('Write-only.').meta({ writeOnly: true }),
    http_headers: httpHeaders.describe(
      'More headers of each request. Write-only; a list replaces the stored one.',
    ),
    partner_certificate_id: certificate.describe(
      'Encrypts to the partner, with an RSA key. Required unless nothing is encrypted.',
    ),
    partner_signing_certificate_id: certificate.describe(
      "Verifies the partner's signatures; null for the certificate that encrypts.",
    ),
    previous_partner_signing_certificate_id: certificate.describe(
      'Verifies too, while the partner still signs with the certificate that was replaced.',
    ),
    tls_client_certificate_id: certificate.describe(
      'Identifies us to the server of the partner; holds a private key.',
    ),
    tls_ca_certificate_id: certificate.describe(
      "The authority, or the server's own certificate, that the partner's TLS is checked against; null for the public ones.",
    ),
    compression: z
      .enum(COMPRESSIONS)
      .default('BeforeSigning')
      .describe('Whether and when messages are compressed.'),
    signing_algorithm: z.enum(SIGNING_ALGORITHMS).default('SHA256').describe('Digest of signatures.'),
    signature_scheme: z.enum(SIGNATURE_SCHEMES).default('PKCS1').describe('RSA signature scheme.'),
    encryption_algorithm: z
      .enum(ENCRYPTION_ALGORITHMS)
      .default('AES256-CBC')
      .describe('Cipher of the content.'),
    key_transport: z.enum(KEY_TRANSPORTS).default('PKCS1').describe('RSA encryption of the content key.'),
    receipt_mode: z
      .enum(RECEIPT_MODES)
      .default('Sync')
      .describe('Whether and how a receipt (MDN) is asked for.'),
    receipt_signed: z.boolean().default(true).describe('Whether the receipt must be signed.'),
    receipt_timeout_hours: z
      .int()
      .min(1)
      .max(720)
      .default(24)
      .describe('Hours to wait for an asynchronous receipt.'),
    require_signed: z.boolean().default(true).describe('Refuse messages of the partner that are not signed.'),
    require_encrypted: z
      .boolean()
      .default(true)
      .describe('Refuse messages of the partner that are not encrypted.'),
    content_type: headerText
      .min(1)
      .regex(/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;.*)?$/, { error: 'must be a media type such as text/plain' })
      .default('application/octet-stream')
      .describe('Media type of messages whose file ending is not known.'),
  })
  .superRefine((profile, context) => {
    if (profile.encryption_algorithm !== 'None' && profile.partner_certificate_id === null) {
      const message = `is required to encrypt with ${profile.encryption_algorithm}`
      context.addIssue({ code: 'custom', path: ['partner_certificate_id'], message })
    }
  })

export type RemoteProfileValues = z.output<typeof remoteProfileSchema>

export const REMOTE_CERTIFICATE_FIELDS = [
  'partner_certificate_id',
  'partner_signing_certificate_id',
  'previous_partner_signing_certificate_id',
  'tls_client_certificate_id',
  'tls_ca_certificate_id',
] as const satisfies readonly (keyof RemoteProfileValues)[]

/** Never returned. They belong to the endpoint that they were entered for. */
export const REMOTE_SECRETS = ['http_basic_password', 'http_headers'] as const
