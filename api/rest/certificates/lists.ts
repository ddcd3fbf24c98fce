import { z } from 'zod'
import type { Clock } from '../../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import { listOf, pagingParameters, searchText, wholeNumber } from '../../../runtime/endpoint/paging.ts'
import { CERTIFICATE_STATES, EXPIRING_DAYS } from '../../../storage/certificates/certificate.ts'
import type { Certificates } from '../../../storage/certificates/certificates.ts'
import { certificateAnswer, shownCertificate } from './answer.ts'

const list = listOf('certificates', certificateAnswer)
const tag = 'Certificates'

export function certificateLists(services: {
  readonly certificates: Certificates
  readonly clock: Clock
}): readonly Endpoint[] {
  const { certificates, clock } = services
  return [
    endpoint({
      method: 'GET',
      path: '/certificates',
      operationId: 'listCertificates',
      summary: 'List certificates',
      description: 'The stored certificates. The filters combine.',
      tag,
      query: z.object({
        ...pagingParameters(),
        q: searchText(
          'Text in description, common name, subject, issuer or serial number, whatever its case, or the start of the SHA-256 fingerprint (at least four hexadecimal digits).',
        ),
        status: z.enum(CERTIFICATE_STATES).optional().describe('Certificates in this state.'),
        key: z.enum(['present', 'absent']).optional().describe('Certificates with or without a private key.'),
      }),
      answer: { kind: 'data', status: 200, schema: list, description: 'The page, oldest first.' },
      handle: async ({ query }) => {
        const { q, status, key, limit, offset } = query
        const { items, total } = await certificates.list({ q, status, key, limit, offset })
        const now = clock.now()
        return { certificates: items.map((each) => shownCertificate(each, now)), total, limit, offset }
      },
    }),
    endpoint({
      method: 'GET',
      path: '/certificates/expiring',
      operationId: 'listExpiringCertificates',
      summary: 'List certificates that expire soon',
      description: 'What has to be replaced: certificates that have expired or will soon.',
      tag,
      query: z.object({
        ...pagingParameters(),
        days: wholeNumber({
          least: 1,
          preset: EXPIRING_DAYS,
          description: 'How many days to look ahead.',
        }),
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
        const now = clock.now()
        return { certificates: items.map((each) => shownCertificate(each, now)), total, limit, offset }
      },
    }),
  ]
}
