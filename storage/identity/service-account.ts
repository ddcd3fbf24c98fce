import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { recordName } from '../../runtime/endpoint/record-rules.ts'

const SERVICE_ACCOUNT_KINDS = ['local', 'federated'] as const

/** A machine client. A local one has API tokens, a federated one the tokens of an identity provider. */
export const ServiceAccountEntity = defineEntity({
  name: 'ServiceAccount',
  tableName: 'service_account',
  properties: {
    id: p.integer().primary().autoincrement(),
    name: p.text(),
    description: p.text(),
    kind: p.enum(SERVICE_ACCOUNT_KINDS),
    enabled: p.boolean(),
    oidc_issuer: p.text(),
    oidc_subject: p.text(),
    last_used_at: p.datetime().nullable(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type ServiceAccount = InferEntity<typeof ServiceAccountEntity>

/** The `sub` of tokens (OpenID Connect Core 1.0 §2: at most 255 characters). */
export const oidcSubject = z
  .string()
  .max(255)
  .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })

export const serviceAccountSchema = z
  .strictObject({
    name: recordName.describe('Unique; requests are recorded as `sa:<name>`. It cannot change.').meta({
      examples: ['erp'],
    }),
    description: z.string().max(500).default('').describe('Text for people.'),
    kind: z
      .enum(SERVICE_ACCOUNT_KINDS)
      .default('local')
      .describe(
        '`local`: its credentials are API tokens made here. `federated`: an identity provider issues its tokens. It cannot change.',
      ),
    enabled: z.boolean().default(true).describe('A disabled account is refused with every credential.'),
    oidc_issuer: z
      .string()
      .max(500)
      .default('')
      .describe(
        'Of a federated account: the issuer URL of a stored identity provider. Empty for a local one.',
      )
      .meta({ examples: [''] }),
    oidc_subject: oidcSubject
      .default('')
      .describe(
        "Of a federated account: the `sub` of its tokens; unique together with the issuer. Empty for a local one. With the client credentials grant many providers put the client's id there.",
      )
      .meta({ examples: [''] }),
  })
  .superRefine((account, context) => {
    for (const property of ['oidc_issuer', 'oidc_subject'] as const) {
      const federated = account.kind === 'federated'
      if (federated === (account[property] !== '')) continue
      const message = federated ? 'is required for a federated account' : 'must be empty for a local account'
      context.addIssue({ code: 'custom', path: [property], message })
    }
  })

export type ServiceAccountValues = z.output<typeof serviceAccountSchema>

/** As requests, history and logs name an account. */
export function callerNameOf(account: { readonly name: string }): string {
  return `sa:${account.name}`
}
