import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { recordName } from '../../runtime/endpoint/record-rules.ts'

export const RouteEntity = defineEntity({
  name: 'Route',
  tableName: 'route',
  properties: {
    id: p.integer().primary().autoincrement(),
    name: p.text().nullable(),
    source_plugin: p.text(),
    from: p.text(),
    to: p.text(),
    target_plugin: p.text(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type Route = InferEntity<typeof RouteEntity>

/** Matches every party. */
const ANY_PARTY = '*'

const partyOrAny = z
  .union([z.literal(ANY_PARTY), recordName], { error: 'must be a party name or *' })
  .default(ANY_PARTY)

export const routeSchema = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(64)
    // Any text without control characters: a route's name is for people.
    .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })
    .nullable()
    .default(null)
    .describe('A name for people, unique when given; null for none.')
    .meta({ examples: ['Orders to Globex'] }),
  source_plugin: recordName
    .describe('Name of the source plugin instance that messages come from.')
    .meta({ examples: ['orders-in'] }),
  from: partyOrAny.describe('Name of the sending party, or `*` for any.').meta({ examples: ['acme'] }),
  to: partyOrAny.describe('Name of the receiving party, or `*` for any.').meta({ examples: ['globex'] }),
  target_plugin: recordName
    .describe('Name of the target plugin instance that delivers.')
    .meta({ examples: ['as2-out'] }),
})

export type RouteValues = z.output<typeof routeSchema>

/** What decides which messages a route takes. */
export type RouteMatch = Pick<RouteValues, 'source_plugin' | 'from' | 'to' | 'target_plugin'>

/**
 * Whether every message of `narrow` goes to the same target by `wide` already: source and target are equal, and
 * each party of `wide` is equal or any.
 */
export function covers(wide: RouteMatch, narrow: RouteMatch): boolean {
  return (
    wide.source_plugin === narrow.source_plugin &&
    wide.target_plugin === narrow.target_plugin &&
    (wide.from === ANY_PARTY || wide.from === narrow.from) &&
    (wide.to === ANY_PARTY || wide.to === narrow.to)
  )
}
