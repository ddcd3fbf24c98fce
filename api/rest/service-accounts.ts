import { z } from 'zod'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { pagingParameters, timestamp } from '../../runtime/endpoint/paging.ts'
import { resourceEndpoints } from '../../runtime/endpoint/resource.ts'
import { serviceAccountSchema, type ServiceAccount } from '../../storage/identity/service-account.ts'
import type { ServiceAccounts } from '../../storage/identity/service-accounts.ts'

/** `/service-accounts`. */

const readOnly = {
  last_used_at: timestamp
    .nullable()
    .describe('When a credential of it was accepted last, to the minute; null for never.'),
  created_at: timestamp,
  updated_at: timestamp,
}

export function serviceAccountEndpoints(services: {
  readonly serviceAccounts: ServiceAccounts
}): readonly Endpoint[] {
  return resourceEndpoints({
    path: '/service-accounts',
    tag: 'Service accounts',
    plural: 'service_accounts',
    noun: 'a service account',
    record: 'ServiceAccount',
    idText: 'Id of the service account.',
    orderText: 'by name',
    query: z.object(pagingParameters()),
    rules: {
      name: 'ServiceAccount',
      schema: serviceAccountSchema,
      readOnly: Object.keys(readOnly),
      identity: { id: 'id' },
    },
    answer: z
      .object({ id: z.int(), ...serviceAccountSchema.shape, ...readOnly })
      .meta({ id: 'ServiceAccount', description: 'A service account.' }),
    records: services.serviceAccounts,
    shown,
    notes: {
      create: 'A name that is taken is a conflict, and so is an identity that another account or a user has.',
      update: 'Disabling it counts from the next request; its tokens work again once it is enabled again.',
      delete: 'Revokes its API tokens, which stay listed as revoked.',
    },
    errors: { create: ['CONFLICT'], update: ['CONFLICT'] },
  })
}

function shown(account: ServiceAccount) {
  const { last_used_at, created_at, updated_at, ...rest } = account
  return {
    ...rest,
    last_used_at: last_used_at?.toISOString() ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
