import { z } from 'zod'
import type { Clock } from '../../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import type { RecordRules } from '../../../runtime/endpoint/record-rules.ts'
import type { CertificateImports } from '../../../storage/certificates/imports.ts'
import { certificateAnswer, shownCertificate } from './answer.ts'

const chosen = z.strictObject({
  index: z
    .int()
    .min(0)
    .describe('Index of the certificate in `found.certificates` of the upload.')
    .meta({ examples: [0] }),
  description: z
    .string()
    .trim()
    .min(1, { error: 'must not be empty' })
    .max(500)
    .describe('Text for people that the certificate is stored with.')
    .meta({ examples: ['Globex, signs since March'] }),
})

const schema = z.strictObject({
  import_token: z
    .string()
    .min(1, { error: 'must not be empty' })
    .max(100)
    .describe('From the upload. It works once, within ten minutes.')
    .meta({ examples: ['q0bS1m8xkGz2F4vJ7nYp3dRtLwEuHcAaQiOoXyZsTfU'] }),
  certificates: z
    .array(chosen)
    .min(1)
    .max(500)
    .superRefine((list, context) => {
      const known = new Set<number>()
      list.forEach(({ index }, at) => {
        if (known.has(index)) {
          context.addIssue({ code: 'custom', path: [at, 'index'], message: `${index} is chosen twice` })
        }
        known.add(index)
      })
    })
    .describe('The certificates to store, each with a description.'),
})

const rules = {
  name: 'CertificateImport',
  schema,
  readOnly: [],
  identity: {},
} satisfies RecordRules<typeof schema>

const answer = z
  .object({
    certificates: z
      .array(certificateAnswer)
      .describe('The stored certificates, in the order of the request.'),
  })
  .meta({ id: 'ImportedCertificates', description: 'What was imported.' })

export function importEndpoint(services: {
  readonly certificateImports: CertificateImports
  readonly clock: Clock
}): Endpoint {
  const { certificateImports, clock } = services
  return endpoint({
    method: 'POST',
    path: '/certificates/import',
    operationId: 'importCertificates',
    summary: 'Import certificates of an upload',
    description:
      'Stores the chosen certificates of an upload, each with the private key that belongs to it: all of them or none. ' +
      'An import that is refused stores nothing, and the token can be used again until one succeeds. ' +
      'A certificate that has been stored meanwhile is refused with `CERTIFICATE_EXISTS`.',
    tag: 'Certificates',
    body: { kind: 'create', rules },
    answer: { kind: 'data', status: 201, schema: answer, description: 'The stored certificates.' },
    errors: ['CERTIFICATE_EXISTS'],
    handle: async ({ body, caller }) => {
      const stored = await certificateImports.import(body.import_token, body.certificates, caller)
      const now = clock.now()
      return { certificates: stored.map((each) => shownCertificate(each, now)) }
    },
  })
}
