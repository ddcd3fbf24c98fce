import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { reference } from '../../runtime/endpoint/paging.ts'
import { as2id } from './as2id.ts'

/** How an organization speaks AS2. Its id is the organization's. */
export const LocalProfileEntity = defineEntity({
  name: 'As2LocalProfile',
  tableName: 'as2_local_profile',
  properties: {
    local_organization_id: p.integer().primary(),
    as2id: p.text(),
    signing_certificate_id: p.integer().nullable(),
    decryption_certificate_id: p.integer().nullable(),
    previous_decryption_certificate_id: p.integer().nullable(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type LocalProfile = InferEntity<typeof LocalProfileEntity>

const certificate = reference.nullable().default(null)

export const localProfileSchema = z.strictObject({
  local_organization_id: reference.describe('The organization that the profile belongs to.'),
  as2id: as2id
    .describe(
      'The identifier of the organization in AS2 headers. Unique among local profiles; its case counts.',
    )
    .meta({ examples: ['ACME-AS2'] }),
  signing_certificate_id: certificate.describe(
    'Signs messages and receipts; holds a private RSA or EC key. Without it, what a partner wants signed cannot be sent. An expired one still signs; partners may refuse it.',
  ),
  decryption_certificate_id: certificate.describe(
    'Decrypts what partners send; holds a private RSA or EC key. An expired one still does, so that no message is lost.',
  ),
  previous_decryption_certificate_id: certificate.describe(
    'Decrypts too, while partners still encrypt to the certificate that was replaced; holds a private RSA or EC key.',
  ),
})

export type LocalProfileValues = z.output<typeof localProfileSchema>

export const LOCAL_CERTIFICATE_FIELDS = [
  'signing_certificate_id',
  'decryption_certificate_id',
  'previous_decryption_certificate_id',
] as const satisfies readonly (keyof LocalProfileValues)[]
