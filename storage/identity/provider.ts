import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { recordName } from '../../runtime/endpoint/record-rules.ts'
import { isLoopback } from '../../runtime/loopback.ts'

/** An identity provider (OpenID Connect) whose users sign in and whose access tokens are credentials. */
export const OidcProviderEntity = defineEntity({
  name: 'OidcProvider',
  tableName: 'oidc_provider',
  properties: {
    id: p.integer().primary().autoincrement(),
    name: p.text(),
    display_name: p.text(),
    enabled: p.boolean(),
    issuer_url: p.text(),
    client_id: p.text(),
    /** Sealed; null for none. */
    client_secret: p.text().nullable(),
    scopes: p.text(),
    api_scopes: p.text(),
    api_audience: p.text(),
    sign_in: p.boolean(),
    accept_tokens_without_audience: p.boolean(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type OidcProvider = InferEntity<typeof OidcProviderEntity>

/** Why a text cannot be an issuer, or null (OpenID Connect Core 1.0 §1.2, Issuer Identifier). */
function refusalOfIssuer(text: string): string | null {
  // As it stands: parsing would forgive missing slashes, backslashes and spaces, and no provider says such an issuer.
  if (!URL.canParse(text) || !/^https?:\/\/[^/\\]/i.test(text) || /[\s\\\p{Cc}]/u.test(text))
    return 'must be an absolute https URL'
  const url = new URL(text)
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    return 'must be an https URL; http is taken for a loopback host alone'
  if (/^[^/]*\/\/[^/]*@/.test(text)) return 'must not carry a user name or password'
  if (text.includes('?') || text.includes('#')) return 'must not have a query or a fragment'
  return null
}

/** RFC 6749 §3.3: tokens of printable ASCII without quote and backslash, with one space between them. */
const SCOPES = /^(?:[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*)?$/
const scopeList = z
  .string()
  .max(1000)
  .regex(SCOPES, { error: 'must be scopes with one space between them, or empty' })
const plainText = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })

export const oidcProviderSchema = z
  .strictObject({
    name: recordName.describe(
      'Unique. The redirect URI of the provider is `<PUBLIC_URL>/ui/auth/<name>/callback`.',
    ),
    display_name: plainText(200).default('').describe('Text of the button to sign in with.'),
    enabled: z.boolean().default(true).describe('Whether its users sign in and its tokens are accepted.'),
    issuer_url: z
      .string()
      .max(500)
      .superRefine((text, context) => {
        const message = refusalOfIssuer(text)
        if (message !== null) context.addIssue({ code: 'custom', message })
      })
      .describe(
        "Unique. Exactly as `issuer` stands in the provider's discovery document, a final slash included: https, or http for a loopback host.",
      )
      .meta({ format: 'uri', examples: ['https://login.example.com/realms/b2b'] }),
    client_id: plainText(255)
      .default('')
      .describe('Our client at the provider. Required when `sign_in` is on.')
      .meta({ examples: ['waybill'] }),
    client_secret: z
      .string()
      .max(500)
      .default('')
      .describe(
        'Write-only. Required when `sign_in` is on; an update that leaves it out keeps it, unless `issuer_url` changes.',
      )
      .meta({ writeOnly: true, examples: ['the secret of the client'] }),
    scopes: scopeList
      .default('openid profile email')
      .describe('Asked for at sign-in, separated by spaces. Must include `openid` when `sign_in` is on.'),
    api_scopes: scopeList
      .default('')
      .describe(
        'What every access token must carry in `scope` or `scp`, separated by spaces; empty for nothing.',
      )
      .meta({ examples: ['waybill.api'] }),
    api_audience: plainText(500)
      .default('')
      .describe(
        'What the audience (`aud`) of access tokens must be or hold; empty for the client id. Required without a client id, unless tokens without audience are accepted.',
      )
      .meta({ examples: ['https://waybill.example.com/api'] }),
    sign_in: z
      .boolean()
      .default(true)
      .describe('Off for a provider that only issues access tokens to service accounts and needs no client.'),
    accept_tokens_without_audience: z
      .boolean()
      .default(false)
      .describe('Accepts a token without audience, from a registered federated service account only.'),
  })
  .superRefine((provider, context) => {
    const refuse = (property: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [property], message })
    const { sign_in, client_id, client_secret, scopes, api_audience } = provider
    if (sign_in && client_id === '') refuse('client_id', 'is required, because sign_in is on')
    if (sign_in && client_secret === '') refuse('client_secret', 'is required, because sign_in is on')
    if (sign_in && !scopes.split(' ').includes('openid'))
      refuse('scopes', 'must include openid, because sign_in is on')
    if (!sign_in && client_id === '' && api_audience === '' && !provider.accept_tokens_without_audience)
      refuse('api_audience', 'is required, because there is no client id to stand for it')
  })

export type OidcProviderValues = z.output<typeof oidcProviderSchema>
