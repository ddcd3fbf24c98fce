import { z } from 'zod'
import type { Clock } from '../../../runtime/clock.ts'
import { endpoint, type Endpoint, type UploadedParts } from '../../../runtime/endpoint/endpoint.ts'
import { validationFailure } from '../../../runtime/errors.ts'
import { timestamp } from '../../../runtime/endpoint/paging.ts'
import { checked } from '../../../runtime/endpoint/validation.ts'
import { certificateSchema } from '../../../storage/certificates/certificate.ts'
import type { Certificates } from '../../../storage/certificates/certificates.ts'
import type { CertificateImports } from '../../../storage/certificates/imports.ts'
import { KEY_ALGORITHMS } from '../../../storage/certificates/reading/facts.ts'
import { keyOf, singleOf, type FoundMaterial } from '../../../storage/certificates/reading/material.ts'
import type { Upload } from '../../../storage/certificates/reading/parse.ts'
import type { UploadReader } from '../../../storage/certificates/reading/upload-reader.ts'
import { certificateAnswer, certificateFacts, shownCertificate, shownFacts } from './answer.ts'

const UPLOAD_LIMIT_BYTES = 20 * 1024 * 1024

const index = z
  .int()
  .min(0)
  .meta({ examples: [0] })

const foundCertificate = z
  .object({
    index: index.describe('Names the certificate in the import.'),
    ...certificateFacts,
    key_index: index
      .nullable()
      .describe(
        'Index in `keys` of the private key that belongs to it and is imported with it; null for none.',
      ),
    existing_id: z
      .int()
      .nullable()
      .describe(
        'Id of the stored record of the same certificate, which cannot be imported again; null for none.',
      )
      .meta({ examples: [null] }),
  })
  .meta({ id: 'FoundCertificate', description: 'A certificate of an upload.' })

const foundKey = z
  .object({
    index: index.describe('Place among the keys, in the order of the files.'),
    algorithm: z.enum(KEY_ALGORITHMS).describe('Algorithm of the key.'),
    size: z
      .int()
      .describe('Size of the key in bits.')
      .meta({ examples: [2048] }),
    certificate_index: index
      .nullable()
      .describe('Index of the first certificate that it belongs to; null for none: it is not imported.'),
  })
  .meta({ id: 'FoundKey', description: 'A private key of an upload; never the key itself.' })

const foundAnswer = z
  .object({
    found: z
      .object({
        certificates: z
          .array(foundCertificate)
          .describe('The certificates, each once, in the order of the files.'),
        keys: z.array(foundKey).describe('The private keys, each once, in the order of the files.'),
      })
      .describe('What the upload holds.'),
    notes: z
      .array(z.string())
      .describe('For people: what was left out and why, and what belongs to nothing.')
      .meta({ examples: [['A block PUBLIC KEY was ignored.']] }),
    import_token: z
      .string()
      .describe('Imports what is chosen of it, once.')
      .meta({ examples: ['q0bS1m8xkGz2F4vJ7nYp3dRtLwEuHcAaQiOoXyZsTfU'] }),
    expires_at: timestamp.describe('When the import token ends, ten minutes after the upload.'),
  })
  .meta({
    id: 'FoundMaterial',
    description: 'Nothing was stored: choose what to import with `POST /certificates/import`.',
  })

const DESCRIPTION = `Takes one certificate, with its private key or without, or a file with several.

The formats: X.509 as PEM or DER; PKCS#7 as PEM, DER or BER; PKCS#12 with old and new algorithms; private keys as PKCS#8, PKCS#1 or SEC1, encrypted or not. A file in PEM may hold any number of them, in any order, with text around them. Keys are RSA of at most 8192 bits, EC on a named curve, or Ed25519. Which key belongs to which certificate is found out.

A single certificate with a \`description\` is stored at once: 201. Anything else stores nothing and is answered with what was found and an \`import_token\`: 200. That is a file with several certificates or keys, a certificate without a description, or a private key alone. One certificate that is stored already is refused in either case. A private key that is uploaded for a certificate and does not belong to it is refused on \`private_key\`.

A certificate is stored once, with or without its private key. To add the key to one that is stored without, delete it and upload both together.

The file is read with limits of time, memory and size: at most 500 certificates with 2 MiB and 50 private keys. What exceeds them is refused after at most two seconds of computing. A machine that is too busy to read the file within ten seconds answers 503.`

interface UploadServices {
  readonly certificates: Certificates
  readonly certificateImports: CertificateImports
  readonly uploadReader: UploadReader
  readonly clock: Clock
}

export function uploadEndpoint(services: UploadServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/certificates',
    operationId: 'uploadCertificate',
    summary: 'Upload a certificate or a file with several',
    description: DESCRIPTION,
    tag: 'Certificates',
    body: {
      kind: 'upload',
      maxBytes: UPLOAD_LIMIT_BYTES,
      files: {
        certificate: 'The certificate, bundle, PKCS#12 file or private key, in any supported format.',
        private_key: 'The private key of the certificate, when it is a file of its own.',
      },
      fields: {
        password: 'Opens a PKCS#12 file or an encrypted private key.',
        description: `${certificateSchema.shape.description.description ?? ''} Without it nothing is stored yet.`,
      },
      required: ['certificate'],
    },
    answer: {
      kind: 'choice',
      byStatus: {
        200: { schema: foundAnswer, description: 'Nothing is stored yet: this is what the upload holds.' },
        201: { schema: certificateAnswer, description: 'The stored certificate.' },
      },
    },
    errors: ['CERTIFICATE_EXISTS', 'TOO_BUSY'],
    handle: async ({ body, caller }) => {
      const { certificates, uploadReader, clock } = services
      const { description } = checked(certificateSchema, {
        description: body.fields.get('description')?.trim(),
      })
      const material = await uploadReader.read(uploadOf(body))
      const single = singleOf(material)
      if (single !== null) await certificates.refuseStored(single.facts.fingerprint_sha256)
      if (single === null || description === '') {
        return { status: 200, data: await offer(material, services) } as const
      }
      const chosen = { found: single, key: keyOf(material, single), description }
      const stored = await certificates.store(chosen, caller)
      return { status: 201, data: shownCertificate(stored, clock.now()) } as const
    },
  })
}

function uploadOf({ files, fields }: UploadedParts): Upload {
  const file = files.get('certificate')
  if (file === undefined) throw validationFailure({ certificate: 'is required' })
  return {
    certificate: file.bytes,
    privateKey: files.get('private_key')?.bytes,
    password: fields.get('password') ?? '',
  }
}

/** Keeps what was found for the import, and says what it is. */
async function offer(material: FoundMaterial, services: UploadServices) {
  const { token, expiresAt, existingIds } = await services.certificateImports.keep(material)
  const now = services.clock.now()
  return {
    found: {
      certificates: material.certificates.map(({ facts, keyIndex }, at) => ({
        index: at,
        ...shownFacts(facts, keyIndex !== null, now),
        key_index: keyIndex,
        existing_id: existingIds[at] ?? null,
      })),
      keys: material.keys.map(({ algorithm, size, certificateIndex }, at) => ({
        index: at,
        algorithm,
        size,
        certificate_index: certificateIndex,
      })),
    },
    notes: [...material.notes],
    import_token: token,
    expires_at: expiresAt.toISOString(),
  }
}
