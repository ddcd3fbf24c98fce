import { z } from 'zod'
import type { Clock } from '../../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import { recordId } from '../../../runtime/endpoint/paging.ts'
import type { RecordRules } from '../../../runtime/endpoint/record-rules.ts'
import { certificateSchema } from '../../../storage/certificates/certificate.ts'
import type { Certificates } from '../../../storage/certificates/certificates.ts'
import { writePem } from '../../../storage/certificates/reading/pem.ts'
import { certificateAnswer, shownCertificate, storedFacts } from './answer.ts'

const rules = {
  name: 'Certificate',
  schema: certificateSchema,
  readOnly: Object.keys(storedFacts),
  identity: { id: 'id' },
} satisfies RecordRules<typeof certificateSchema>

const path = '/certificates/{id}'
const params = z.object({ id: recordId.describe('Id of the certificate.') })
const tag = 'Certificates'
const stored = (description: string) =>
  ({ kind: 'data', status: 200, schema: certificateAnswer, description }) as const

export function oneCertificate(services: {
  readonly certificates: Certificates
  readonly clock: Clock
}): readonly Endpoint[] {
  const { certificates, clock } = services
  return [
    endpoint({
      method: 'GET',
      path,
      operationId: 'getCertificate',
      summary: 'Get a certificate',
      description: 'What is known of it, and whether its private key is stored; the key itself never leaves.',
      tag,
      params,
      answer: stored('The certificate.'),
      handle: async (request) => shownCertificate(await certificates.get(request.path.id), clock.now()),
    }),
    endpoint({
      method: 'PUT',
      path,
      operationId: 'updateCertificate',
      summary: 'Change the description of a certificate',
      description:
        'Everything else is part of the certificate and cannot be changed; sent back, it is ignored.',
      tag,
      params,
      body: { kind: 'update', rules },
      answer: stored('The stored certificate.'),
      handle: async (request) => {
        const { path: at, body, caller } = request
        return shownCertificate(await certificates.update(at.id, body, caller), clock.now())
      },
    }),
    endpoint({
      method: 'DELETE',
      path,
      operationId: 'deleteCertificate',
      summary: 'Delete a certificate',
      description:
        'Removes the certificate and its private key. Refused while an AS2 profile or a plugin configuration refers to it; the answer lists at most 25 of them and counts all.',
      tag,
      params,
      answer: { kind: 'empty', description: 'Deleted.' },
      errors: ['CERTIFICATE_IN_USE'],
      handle: async (request) => {
        await certificates.delete(request.path.id, request.caller)
        return undefined
      },
    }),
    download(certificates),
  ]
}

function download(certificates: Certificates): Endpoint {
  return endpoint({
    method: 'GET',
    path: `${path}/download`,
    operationId: 'downloadCertificate',
    summary: 'Download a certificate',
    description: 'The certificate as it is given to partners. Its private key is never part of any answer.',
    tag,
    params,
    answer: {
      kind: 'file',
      contentType: 'application/x-pem-file',
      description: 'The certificate as PEM, never its key.',
    },
    handle: async (request) => {
      const { der, common_name, id } = await certificates.get(request.path.id)
      const name = common_name
        .replaceAll(/[^A-Za-z0-9._-]+/g, '_')
        .replaceAll(/^[._]+|_+$/g, '')
        .slice(0, LONGEST_FILE_NAME)
      return {
        contentType: 'application/x-pem-file',
        fileName: `${name === '' ? `certificate-${id}` : name}.pem`,
        bytes: Buffer.from(writePem('CERTIFICATE', der)),
      }
    },
  })
}

const LONGEST_FILE_NAME = 100
