import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure } from '../../runtime/errors.ts'
import {
  listOf,
  pagingParameters,
  recordId,
  searchText,
  timestamp,
  wholeNumber,
} from '../../runtime/endpoint/paging.ts'
import type { RecordRules } from '../../runtime/endpoint/record-rules.ts'
import { checked } from '../../runtime/endpoint/validation.ts'
import {
  CERTIFICATE_STATES,
  certificateSchema,
  daysRemaining,
  EXPIRING_DAYS,
  stateOf,
  type Certificate,
} from '../../storage/certificates/certificate.ts'
import type { Certificates } from '../../storage/certificates/certificates.ts'
import { KEY_ALGORITHMS } from '../../storage/certificates/facts.ts'
import { parseUpload } from '../../storage/certificates/parse.ts'
import { writePem } from '../../storage/certificates/pem.ts'

/** `/certificates`. */

const hex = (digits: number) =>
  z
    .string()
    .length(digits)
    .regex(/^[0-9a-f]*$/)

const facts = {
  common_name: z.string().describe('Empty when the subject has none.'),
  subject: z.string(),
  issuer: z.string(),
  serial_number: z.string().describe('Hexadecimal.'),
  not_before: timestamp,
  not_after: timestamp,
  state: z.enum(CERTIFICATE_STATES).describe(`\`expiring\` within ${EXPIRING_DAYS} days of the end.`),
  days_remaining: z.int().min(0).describe('Whole days of validity left; 0 when expired.'),
  has_private_key: z.boolean(),
  private_key_matches: z
    .boolean()
    .describe('Whether the stored key belongs to the certificate; false without one.'),
  fingerprint_sha256: hex(64),
  fingerprint_sha1: hex(40),
  key_algorithm: z.enum(KEY_ALGORITHMS),
  key_size: z.int().describe('Bits.'),
  signature_algorithm: z.string(),
  is_ca: z.boolean(),
  extensions: z.array(
    z.object({ oid: z.string(), name: z.string(), critical: z.boolean(), value: z.string() }),
  ),
  created_at: timestamp,
  updated_at: timestamp,
}

const answer = z.object({ id: z.int(), ...certificateSchema.shape, ...facts }).meta({ id: 'Certificate' })

const rules = {
  name: 'Certificate',
  schema: certificateSchema,
  readOnly: Object.keys(facts),
  identity: { id: 'id' },
} satisfies RecordRules<typeof certificateSchema>

const params = z.object({ id: recordId.describe('Id of the certificate.') })
const tag = 'Certificates'
const list = listOf('certificates', answer)
const UPLOAD_LIMIT_BYTES = 20 * 1024 * 1024

export interface CertificateServices {
  readonly certificates: Certificates
  readonly clock: Clock
}

export function certificateEndpoints(services: CertificateServices): readonly Endpoint[] {
  return [...certificateLists(services), upload(services), ...oneCertificate(services)]
}

function certificateLists({ certificates, clock }: CertificateServices): readonly Endpoint[] {
  return [
    endpoint({
      method: 'GET',
      path: '/certificates',
      operationId: 'listCertificates',
      summary: 'List certificates',
      tag,
      query: z.object({
        ...pagingParameters(),
        q: searchText(
          'Text in description, common name, subject, issuer or serial number, or the start of the SHA-256 fingerprint (at least four hexadecimal digits).',
        ),
        status: z.enum(CERTIFICATE_STATES).optional().describe('Certificates in this state.'),
        key: z.enum(['present', 'absent']).optional().describe('Certificates with or without a private key.'),
      }),
      answer: { kind: 'data', status: 200, schema: list, description: 'The page, oldest first.' },
      handle: async ({ query }) => {
        const { q, status, key, limit, offset } = query
        const { items, total } = await certificates.list({ q, status, key, limit, offset })
        return { certificates: items.map((each) => shown(each, clock)), total, limit, offset }
      },
    }),
    endpoint({
      method: 'GET',
      path: '/certificates/expiring',
      operationId: 'listExpiringCertificates',
      summary: 'List certificates that expire soon',
      tag,
      query: z.object({
        ...pagingParameters(),
        days: wholeNumber({ least: 1, preset: EXPIRING_DAYS, description: 'How far to look ahead.' }),
      }),
      answer: {
        kind: 'data',
        status: 200,
        schema: list,
        description: 'Expired certificates and those that expire within the days, soonest first.',
      },
      handle: async ({ query }) => {
        const { days, limit, offset } = query
        const { items, total } = await certificates.expiring(days, { limit, offset })
        return { certificates: items.map((each) => shown(each, clock)), total, limit, offset }
      },
    }),
  ]
}

function upload({ certificates, clock }: CertificateServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/certificates',
    operationId: 'uploadCertificate',
    summary: 'Upload a certificate',
    description: 'A single certificate, with its private key or without, as PEM, DER or PKCS#12.',
    tag,
    body: {
      kind: 'upload',
      maxBytes: UPLOAD_LIMIT_BYTES,
      files: {
        certificate: 'The certificate, or a PKCS#12 file with certificate and key.',
        private_key: 'The private key of the certificate: PKCS#8, PKCS#1 or SEC1, encrypted or not.',
      },
      fields: {
        password: 'Opens a PKCS#12 file or an encrypted key.',
        description: certificateSchema.shape.description.description ?? '',
      },
      required: ['certificate'],
    },
    answer: { kind: 'data', status: 201, schema: answer, description: 'The stored certificate.' },
    errors: ['CERTIFICATE_EXISTS'],
    handle: async ({ body }) => {
      const file = body.files.get('certificate')
      if (file === undefined) throw validationFailure({ certificate: 'is required' })
      const material = parseUpload({
        certificate: file.bytes,
        privateKey: body.files.get('private_key')?.bytes,
        password: body.fields.get('password') ?? '',
      })
      const { description } = checked(certificateSchema, {
        description: body.fields.get('description')?.trim(),
      })
      return shown(await certificates.store(material, description), clock)
    },
  })
}

function oneCertificate({ certificates, clock }: CertificateServices): readonly Endpoint[] {
  const path = '/certificates/{id}'
  return [
    endpoint({
      method: 'GET',
      path,
      operationId: 'getCertificate',
      summary: 'Get a certificate',
      tag,
      params,
      answer: { kind: 'data', status: 200, schema: answer, description: 'The certificate.' },
      handle: async (request) => shown(await certificates.get(request.path.id), clock),
    }),
    endpoint({
      method: 'PUT',
      path,
      operationId: 'updateCertificate',
      summary: 'Change the description of a certificate',
      tag,
      params,
      body: { kind: 'update', rules },
      answer: { kind: 'data', status: 200, schema: answer, description: 'The stored certificate.' },
      handle: async (request) => shown(await certificates.update(request.path.id, request.body), clock),
    }),
    endpoint({
      method: 'DELETE',
      path,
      operationId: 'deleteCertificate',
      summary: 'Delete a certificate',
      description: 'Refused while an AS2 profile or a plugin configuration uses it.',
      tag,
      params,
      answer: { kind: 'empty', description: 'Deleted.' },
      errors: ['CERTIFICATE_IN_USE'],
      handle: async (request) => certificates.delete(request.path.id).then(() => undefined),
    }),
    endpoint({
      method: 'GET',
      path: `${path}/download`,
      operationId: 'downloadCertificate',
      summary: 'Download a certificate',
      tag,
      params,
      answer: {
        kind: 'file',
        contentType: 'application/x-pem-file',
        description: 'The certificate as PEM, never its key.',
      },
      handle: async (request) => {
        const { der, common_name, id } = await certificates.get(request.path.id)
        const name = common_name.replaceAll(/[^A-Za-z0-9._-]+/g, '_').replaceAll(/^[._]+|_+$/g, '')
        return {
          contentType: 'application/x-pem-file',
          fileName: `${name === '' ? `certificate-${id}` : name}.pem`,
          bytes: Buffer.from(writePem('CERTIFICATE', der)),
        }
      },
    }),
  ]
}

function shown(certificate: Certificate, clock: Clock) {
  const {
    der: _,
    private_key,
    not_before,
    not_after,
    created_at,
    updated_at,
    extensions,
    ...rest
  } = certificate
  const now = clock.now()
  const hasKey = typeof private_key === 'string'
  return {
    ...rest,
    extensions: [...extensions],
    not_before: not_before.toISOString(),
    not_after: not_after.toISOString(),
    state: stateOf(not_after, now),
    days_remaining: daysRemaining(not_after, now),
    has_private_key: hasKey,
    // A key that does not match is refused when it is uploaded.
    private_key_matches: hasKey,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
