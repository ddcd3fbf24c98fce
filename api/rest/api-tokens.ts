import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { listOf, pagingParameters, recordId, timestamp } from '../../runtime/endpoint/paging.ts'
import type { RecordRules } from '../../runtime/endpoint/record-rules.ts'
import { API_TOKEN_STATES, apiTokenSchema, stateOf, type ApiToken } from '../../storage/identity/api-token.ts'
import type { ApiTokens } from '../../storage/identity/api-tokens.ts'

/** `/api-tokens`. */

export interface ApiTokenServices {
  readonly apiTokens: ApiTokens
  readonly clock: Clock
}

const tag = 'API tokens'
const { service_account, label } = apiTokenSchema.shape
const facts = {
  public_id: z
    .string()
    .regex(/^[0-9A-Za-z]{12}$/)
    .describe('The 12 characters after the prefix of the token: they name it and are no secret.')
    .meta({ examples: ['Xk3vQ9mT2bLp'] }),
  service_account: service_account.describe('Name of the local service account.'),
  label,
  state: z.enum(API_TOKEN_STATES).describe('`active` until it expires or is revoked.'),
  created_at: timestamp,
  expires_at: timestamp.describe('From then on it is refused.'),
  last_used_at: timestamp.nullable().describe('When it was accepted last, to the minute; null for never.'),
  revoked_at: timestamp.nullable().describe('Null for never.'),
}

const answer = z
  .object({ id: z.int(), ...facts })
  .meta({ id: 'ApiToken', description: 'An API token, without its secret.' })

const madeAnswer = z
  .object({
    id: z.int(),
    ...facts,
    token: z
      .string()
      .describe('The credential itself, for `Authorization: Bearer`. No other answer ever carries it.')
      .meta({ examples: ['wbl_Xk3vQ9mT2bLp…'] }),
  })
  .meta({ id: 'NewApiToken', description: 'An API token that was just made, with its secret.' })

const rules = {
  name: 'ApiToken',
  schema: apiTokenSchema,
  readOnly: Object.keys(facts).filter((name) => name !== 'service_account' && name !== 'label'),
  identity: { id: 'id' },
} satisfies RecordRules<typeof apiTokenSchema>

export function apiTokenEndpoints({ apiTokens, clock }: ApiTokenServices): readonly Endpoint[] {
  return [
    endpoint({
      method: 'GET',
      path: '/api-tokens',
      operationId: 'listApiTokens',
      summary: 'List API tokens',
      description: "Every local account's tokens, those that have expired or were revoked too.",
      tag,
      query: z.object(pagingParameters()),
      answer: {
        kind: 'data',
        status: 200,
        schema: listOf('api_tokens', answer),
        description: 'The page, newest first.',
      },
      handle: async ({ query }) => {
        const { items, total } = await apiTokens.list(query)
        return { api_tokens: items.map((each) => shown(each, clock)), total, ...query }
      },
    }),
    endpoint({
      method: 'POST',
      path: '/api-tokens',
      operationId: 'createApiToken',
      summary: 'Make an API token',
      description: 'Keep the token of the answer in a safe place: it is not shown again.',
      tag,
      body: { kind: 'create', rules, references: (body) => apiTokens.refusalsOfReferences(body) },
      answer: { kind: 'data', status: 201, schema: madeAnswer, description: 'The token, this once.' },
      handle: async ({ body, caller }) => {
        const { token, text } = await apiTokens.create(body, caller)
        return { ...shown(token, clock), token: text }
      },
    }),
    endpoint({
      method: 'DELETE',
      path: '/api-tokens/{id}',
      operationId: 'revokeApiToken',
      summary: 'Revoke an API token',
      description:
        'Counts from the next request, on every node. The token stays listed; revoking it again changes nothing.',
      tag,
      params: z.object({ id: recordId.describe('Id of the API token.') }),
      answer: { kind: 'empty', description: 'Revoked.' },
      handle: async ({ path, caller }) => {
        await apiTokens.revoke(path.id, caller)
        return undefined
      },
    }),
  ]
}

function shown(token: ApiToken, clock: Clock) {
  const { id, public_id, service_account: account, label: text } = token
  const { created_at, expires_at, last_used_at, revoked_at } = token
  return {
    id,
    public_id,
    service_account: account,
    label: text,
    state: stateOf(token, clock.now()),
    created_at: created_at.toISOString(),
    expires_at: expires_at.toISOString(),
    last_used_at: last_used_at?.toISOString() ?? null,
    revoked_at: revoked_at?.toISOString() ?? null,
  }
}
