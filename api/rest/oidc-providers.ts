import { z } from 'zod'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { pagingParameters, timestamp } from '../../runtime/endpoint/paging.ts'
import { resourceEndpoints } from '../../runtime/endpoint/resource.ts'
import { oidcProviderSchema, type OidcProvider } from '../../storage/identity/provider.ts'
import type { OidcProviders } from '../../storage/identity/providers.ts'

/** `/oidc-providers`. */

const stamps = { created_at: timestamp, updated_at: timestamp }
const { client_secret: _writeOnly, ...openShape } = oidcProviderSchema.shape

export function oidcProviderEndpoints(services: {
  readonly oidcProviders: OidcProviders
}): readonly Endpoint[] {
  return resourceEndpoints({
    path: '/oidc-providers',
    tag: 'Identity providers',
    plural: 'oidc_providers',
    noun: 'an identity provider',
    record: 'OidcProvider',
    idText: 'Id of the identity provider.',
    orderText: 'by name',
    query: z.object(pagingParameters()),
    rules: {
      name: 'OidcProvider',
      schema: oidcProviderSchema,
      readOnly: Object.keys(stamps),
      identity: { id: 'id' },
    },
    answer: z.object({ id: z.int(), ...openShape, ...stamps }).meta({
      id: 'OidcProvider',
      description: 'An identity provider, without its client secret.',
    }),
    records: services.oidcProviders,
    shown,
    notes: {
      create: 'The provider is not asked: a wrong issuer shows with the first sign-in or token.',
      update: 'Counts from the next sign-in and the next token; nothing is restarted.',
      delete:
        'Its users and federated service accounts stay, and are accepted again once a provider has their issuer URL.',
    },
    errors: { create: ['CONFLICT'], update: ['CONFLICT'] },
  })
}

function shown(provider: OidcProvider) {
  const { client_secret: _, created_at, updated_at, ...open } = provider
  return { ...open, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() }
}
