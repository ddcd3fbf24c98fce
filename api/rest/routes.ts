import { z } from 'zod'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { pagingParameters, timestamp } from '../../runtime/endpoint/paging.ts'
import { resourceEndpoints } from '../../runtime/endpoint/resource.ts'
import { routeSchema, type Route } from '../../storage/routes/route.ts'
import type { Routes } from '../../storage/routes/routes.ts'

/** `/routes`. */

const stamps = { created_at: timestamp, updated_at: timestamp }
const acceptance =
  'Source and target must be existing instances of that role, the parties must exist. A route covers another when source and target are equal and its `from` and `to` are each equal or `*`; one that is covered already is refused on `to`, before a name that is taken. It counts from the next message that is dispatched.'

export function routeEndpoints(services: { readonly routes: Routes }): readonly Endpoint[] {
  return resourceEndpoints({
    path: '/routes',
    tag: 'Routes',
    plural: 'routes',
    noun: 'a route',
    record: 'Route',
    idText: 'Id of the route.',
    orderText: 'oldest first',
    query: z.object(pagingParameters()),
    rules: { name: 'Route', schema: routeSchema, readOnly: Object.keys(stamps), identity: { id: 'id' } },
    answer: z
      .object({ id: z.int(), ...routeSchema.shape, ...stamps })
      .meta({ id: 'Route', description: 'Which messages go from a source to a target.' }),
    records: services.routes,
    shown,
    notes: {
      create: acceptance,
      update: acceptance,
      delete: 'Counts from the next message that is dispatched; deliveries that it made are carried on.',
    },
    errors: { create: ['CONFLICT'], update: ['CONFLICT'] },
  })
}

function shown(route: Route) {
  const { id, name, source_plugin, from, to, target_plugin, created_at, updated_at } = route
  return {
    id,
    name: name ?? null,
    source_plugin,
    from,
    to,
    target_plugin,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
