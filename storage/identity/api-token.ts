import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'

/** A credential of a local service account. Its text is shown once and stored nowhere. */
export const ApiTokenEntity = defineEntity({
  name: 'ApiToken',
  tableName: 'api_token',
  properties: {
    id: p.integer().primary().autoincrement(),
    public_id: p.text(),
    /** Of the whole text. */
    token_sha256: p.blob(),
    /** Null once the account is deleted. */
    service_account_id: p.integer().nullable(),
    service_account: p.text(),
    label: p.text(),
    created_at: p.datetime(),
    expires_at: p.datetime(),
    last_used_at: p.datetime().nullable(),
    revoked_at: p.datetime().nullable(),
  },
})

export type ApiToken = InferEntity<typeof ApiTokenEntity>

export const API_TOKEN_STATES = ['active', 'expired', 'revoked'] as const
type ApiTokenState = (typeof API_TOKEN_STATES)[number]

/** Revocation is for ever; an active token expires by itself (specification, 3.5). */
export function stateOf(token: Pick<ApiToken, 'revoked_at' | 'expires_at'>, now: Date): ApiTokenState {
  if (token.revoked_at != null) return 'revoked'
  return token.expires_at.getTime() <= now.getTime() ? 'expired' : 'active'
}

const LONGEST_LABEL = 64
const LONGEST_EXPIRY_DAYS = 365
const DEFAULT_EXPIRY_DAYS = 90

export const apiTokenSchema = z.strictObject({
  service_account: z
    .string()
    .min(1)
    .describe('Name of the local service account that the token is a credential of.')
    .meta({ examples: ['erp'] }),
  label: z
    .string()
    .min(1)
    // Characters, not the code units that a string's length counts.
    .refine((text) => Array.from(text).length <= LONGEST_LABEL, {
      error: `must have at most ${LONGEST_LABEL} characters`,
    })
    .refine((text) => !/\p{Cc}/u.test(text), { error: 'must not contain control characters' })
    .describe('Text for people, such as where the token is kept.')
    .meta({ maxLength: LONGEST_LABEL, examples: ['nightly export'] }),
  expires_in_days: z
    .int()
    .min(1)
    .max(LONGEST_EXPIRY_DAYS)
    .default(DEFAULT_EXPIRY_DAYS)
    .describe('In how many days the token expires.'),
})

export type ApiTokenValues = z.output<typeof apiTokenSchema>
