import { z } from 'zod'
import {
  basicPairLacks,
  basicPairRefusal,
  basicPassword,
  basicUsername,
} from '../../runtime/endpoint/basic-credentials.ts'
import { httpHeaders } from '../../runtime/endpoint/http-headers.ts'
import { reference } from '../../runtime/endpoint/paging.ts'
import { targetUrl } from '../../runtime/endpoint/target-url.ts'
import { isStructuralType } from '../../runtime/mime/structural-types.ts'
import { as2id } from './as2id.ts'
import { partnerSwitches } from './partner-switches.ts'
import {
  COMPRESSIONS,
  ENCRYPTION_ALGORITHMS,
  KEY_TRANSPORTS,
  RECEIPT_MODES,
  SIGNATURE_SCHEMES,
  SIGNING_ALGORITHMS,
} from './remote-profile.ts'

/** The rules of a remote profile: its properties, their defaults, and what they ask of each other. */

const certificate = reference.nullable().default(null)

/** RFC 4130 §6 and what a composed message carries: a second one would contradict it. */
const AS2_HEADERS: ReadonlySet<string> = new Set([
  'as2-from',
  'as2-product',
  'as2-to',
  'as2-version',
  'content-disposition',
  'content-transfer-encoding',
  'date',
  'disposition-notification-options',
  'disposition-notification-to',
  'ediint-features',
  'message-id',
  'mime-version',
  'receipt-delivery-option',
  'subject',
  'user-agent',
])

/** Messages that only get a type here are single files, which no boundary takes apart. */
function isTypeOfContent(type: string): boolean {
  return !type.startsWith('multipart/') && !isStructuralType(type)
}

const properties = {
  business_partner_id: reference.describe('The partner that the profile belongs to.'),
  as2id: as2id
    .describe('The identifier of the partner in AS2 headers. Unique among remote profiles; its case counts.')
    .meta({ examples: ['GLOBEX-AS2'] }),
  endpoint: targetUrl
    .describe('Where the partner receives AS2 messages. A change of it asks for the stored secrets again.')
    .meta({ examples: ['https://as2.globex.example/as2'] }),
  subject: z
    .string()
    .max(500)
    // A line end would begin another header.
    .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })
    .default('')
    .describe('The Subject header of messages; empty for the name of the file.')
    .meta({ examples: ['Orders of Acme'] }),
  http_basic_username: basicUsername('http_basic_password'),
  http_basic_password: basicPassword('http_basic_username'),
  http_headers: httpHeaders
    .superRefine((headers, context) => {
      for (const [at, { name }] of headers.entries()) {
        if (!AS2_HEADERS.has(name.toLowerCase())) continue
        context.addIssue({ code: 'custom', path: [at, 'name'], message: 'cannot be set: AS2 sets it itself' })
      }
    })
    .describe(
      'More headers of each request. Those that AS2 or HTTP sets itself are refused. Write-only; a list replaces the stored one, an empty one removes it.',
    )
    .meta({ writeOnly: true, examples: [[{ name: 'X-Api-Key', value: 'a long random text' }]] }),
  partner_certificate_id: certificate.describe(
    'Encrypts to the partner, with an RSA or EC key. Required unless nothing is encrypted. It also verifies the partner where `partner_signing_certificate_id` is null.',
  ),
  partner_signing_certificate_id: certificate.describe(
    "Verifies the partner's signatures, with an RSA or EC key; null for the certificate that encrypts. Required where there is none, while `receipt_mode` is not None and `receipt_signed` is true; a previous one will do.",
  ),
  previous_partner_signing_certificate_id: certificate.describe(
    'Verifies too, while the partner still signs with the certificate that was replaced.',
  ),
  tls_client_certificate_id: certificate.describe(
    'Identifies us to the server of the partner; holds a private key. Null where it asks for none.',
  ),
  tls_ca_certificate_id: certificate.describe(
    "The authority, or the server's own certificate, that the partner's TLS is checked against; null for the public ones. Another host that the partner wants a receipt at may be of either.",
  ),
  compression: z
    .enum(COMPRESSIONS)
    .default('BeforeSigning')
    .describe('Whether and when messages are compressed. Without a signature, both times are the same.'),
  signing_algorithm: z
    .enum(SIGNING_ALGORITHMS)
    .default('SHA256')
    .describe('Digest of signatures; None sends messages unsigned.'),
  signature_scheme: z
    .enum(SIGNATURE_SCHEMES)
    .default('PKCS1')
    .describe(
      'Padding of RSA signatures of messages and receipts that we send: PKCS #1 v1.5 or PSS. An EC certificate signs with ECDSA whatever stands here.',
    ),
  encryption_algorithm: z
    .enum(ENCRYPTION_ALGORITHMS)
    .default('AES256-CBC')
    .describe('Cipher of the content; None sends it in clear.'),
  key_transport: z
    .enum(KEY_TRANSPORTS)
    .default('PKCS1')
    .describe(
      'RSA encryption of the content key: PKCS #1 v1.5 or OAEP. Means nothing while nothing is encrypted, or for an EC certificate, to which it goes by key agreement (ECDH).',
    ),
  receipt_mode: z
    .enum(RECEIPT_MODES)
    .default('Sync')
    .describe(
      'Whether a receipt (MDN) is asked for: `Sync` with the answer itself, `Async` later, by a request of the partner to an enabled AS2 receiver: to the first one saved that has a `public_url`, else to the first one saved. A message waits for it in the state `awaiting_ack`. One that comes with the answer counts all the same.',
    ),
  receipt_signed: z
    .boolean()
    .default(true)
    .describe(
      'Whether the receipt must be signed, which asks for a certificate to verify it with. Means nothing while none is asked for.',
    ),
  receipt_timeout_hours: z
    .int()
    .min(1)
    .max(720)
    .default(24)
    .describe(
      'Hours to wait for an asynchronous receipt. The delivery fails when none has come by then. One that comes later is kept with the message and told in its history (`receipt.state` is then what it says, and `overdue` no more); the delivery stays failed.',
    ),
  require_signed: z
    .boolean()
    .default(true)
    .describe(
      'Refuse messages of the partner that are not signed. They need a certificate to verify them with.',
    ),
  require_encrypted: z
    .boolean()
    .default(true)
    .describe('Refuse messages of the partner that are not encrypted.'),
  content_type: z
    .string()
    .min(1)
    .max(255)
    .regex(/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;[\x20-\x7e]*)?$/, {
      error: 'must be a media type such as text/plain, in ASCII',
    })
    .refine((text) => isTypeOfContent(text.split(';', 1)[0]?.trim().toLowerCase() ?? ''), {
      error:
        'must not be multipart, or a type of S/MIME or of receipts: content would be taken for what it is not',
    })
    .default('application/octet-stream')
    .describe('Media type of messages whose file ending is not known.')
    .meta({ examples: ['application/edifact'] }),
  ...partnerSwitches,
}

interface Rule {
  readonly path: readonly string[]
  readonly error: string
  /** Whether the rule is kept. A property may have been refused before, and hold anything. */
  readonly kept: (values: Readonly<Record<string, unknown>>) => boolean
}

/** What the properties ask of each other. Each is told beside what is wrong with single properties. */
const RULES: readonly Rule[] = [
  {
    path: ['partner_certificate_id'],
    error: 'is required while messages to the partner are encrypted',
    kept: ({ encryption_algorithm, partner_certificate_id }) =>
      partner_certificate_id !== null ||
      !ENCRYPTION_ALGORITHMS.some((each) => each !== 'None' && each === encryption_algorithm),
  },
  {
    path: ['partner_signing_certificate_id'],
    error:
      'is required while receipts must be signed and partner_certificate_id is null: set receipt_signed to false to take unsigned ones',
    kept: (values) => !wantsSignedReceipt(values) || hasVerifier(values),
  },
  {
    path: ['tls_verify_host_name'],
    error: 'may be false only with tls_ca_certificate_id, or any server could pass for the partner',
    kept: ({ tls_verify_host_name, tls_ca_certificate_id }) =>
      tls_verify_host_name !== false || tls_ca_certificate_id !== null,
  },
  {
    path: ['http_basic_password'],
    error: basicPairRefusal('http_basic_username'),
    kept: (values) => lackingCredential(values) !== 'http_basic_password',
  },
  {
    path: ['http_basic_username'],
    error: basicPairRefusal('http_basic_password'),
    kept: (values) => lackingCredential(values) !== 'http_basic_username',
  },
  {
    path: ['http_headers'],
    error: 'must not have Authorization: basic authentication sets it',
    kept: ({ http_basic_username, http_headers }) =>
      http_basic_username === '' || !hasHeader(http_headers, 'authorization'),
  },
]

function wantsSignedReceipt({ receipt_mode, receipt_signed }: Readonly<Record<string, unknown>>): boolean {
  return receipt_signed === true && RECEIPT_MODES.some((each) => each !== 'None' && each === receipt_mode)
}

/** Whether something verifies receipts. What encrypts verifies, too, and is asked for by a rule of its own. */
function hasVerifier(values: Readonly<Record<string, unknown>>): boolean {
  return (
    values['encryption_algorithm'] !== 'None' ||
    values['partner_certificate_id'] !== null ||
    values['partner_signing_certificate_id'] !== null ||
    values['previous_partner_signing_certificate_id'] !== null
  )
}

function lackingCredential(values: Readonly<Record<string, unknown>>) {
  return basicPairLacks(values, 'http_basic_username', 'http_basic_password')
}

function hasHeader(headers: unknown, name: string): boolean {
  const list = httpHeaders.safeParse(headers)
  return list.success && list.data.some((header) => header.name.toLowerCase() === name)
}

/** Secure defaults: compressed, signed and encrypted, with a synchronous signed receipt. */
export const remoteProfileSchema = RULES.reduce(
  (schema, { path, error, kept }) =>
    schema.refine(kept, {
      path: [...path],
      error,
      when: ({ value }) => typeof value === 'object' && value !== null,
    }),
  z.strictObject(properties),
)

export type RemoteProfileValues = z.output<typeof remoteProfileSchema>

/** Never returned. They belong to the endpoint that they were entered for. */
export const REMOTE_SECRETS = ['http_basic_password', 'http_headers'] as const
