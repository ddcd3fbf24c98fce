import { z } from 'zod'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { pagingParameters, searchText, timestamp } from '../../runtime/endpoint/paging.ts'
import { resourceEndpoints } from '../../runtime/endpoint/resource.ts'
import type { Parties } from '../../storage/parties/parties.ts'
import { partySchema, type Party } from '../../storage/parties/party.ts'

/** `/organizations` and `/partners`: two resources of one kind. */

interface Naming {
  /** In the OpenAPI document. */
  readonly record: string
  readonly tag: string
  readonly plural: string
  readonly noun: string
  /** What the record is. */
  readonly text: string
}

export function organizationEndpoints(services: { readonly organizations: Parties }): readonly Endpoint[] {
  return partyEndpoints(services.organizations, {
    record: 'Organization',
    tag: 'Organizations',
    plural: 'organizations',
    noun: 'an organization',
    text: "One of the operator's own parties.",
  })
}

export function partnerEndpoints(services: { readonly partners: Parties }): readonly Endpoint[] {
  return partyEndpoints(services.partners, {
    record: 'Partner',
    tag: 'Partners',
    plural: 'partners',
    noun: 'a partner',
    text: 'A business partner.',
  })
}

const stamps = { created_at: timestamp, updated_at: timestamp }

function partyEndpoints(parties: Parties, naming: Naming): readonly Endpoint[] {
  return resourceEndpoints({
    ...naming,
    path: `/${naming.plural}`,
    idText: 'Id of the party.',
    orderText: 'by name',
    query: z.object({
      ...pagingParameters(),
      q: searchText('Text in name or display name, in any case.'),
    }),
    rules: {
      name: naming.record,
      schema: partySchema,
      readOnly: Object.keys(stamps),
      identity: { id: 'id' },
    },
    answer: z
      .object({ id: z.int(), ...partySchema.shape, ...stamps })
      .meta({ id: naming.record, description: naming.text }),
    records: parties,
    shown,
    notes: {
      create: 'A name may be that of an organization and of a partner at once.',
      update:
        'The name cannot change while a route or a plugin configuration uses it, while messages of the party are on their way, or while receipts are owed for them.',
      delete: 'Refused while a route, a profile or a plugin configuration uses it.',
    },
    errors: { create: ['CONFLICT'], update: ['CONFLICT'], delete: ['CONFLICT'] },
  })
}

function shown(party: Party) {
  const { id, name, display_name, created_at, updated_at } = party
  return {
    id,
    name,
    display_name,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
