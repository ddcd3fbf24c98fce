import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { recordName } from '../../runtime/endpoint/record-rules.ts'

/** Organizations and partners: two resources with the same properties and rules. */

const properties = {
  id: p.integer().primary().autoincrement(),
  name: p.text(),
  display_name: p.text(),
  created_at: p.datetime().onCreate(() => new Date()),
  updated_at: p
    .datetime()
    .onCreate(() => new Date())
    .onUpdate(() => new Date()),
}

export const OrganizationEntity = defineEntity({
  name: 'Organization',
  tableName: 'organization',
  properties,
})
export const PartnerEntity = defineEntity({ name: 'Partner', tableName: 'partner', properties })

export type Party = InferEntity<typeof OrganizationEntity>
export type PartyEntity = typeof OrganizationEntity | typeof PartnerEntity

export const partySchema = z.strictObject({
  name: recordName
    .describe('Names the party in routes and messages. Unique among its kind.')
    .meta({ examples: ['globex'] }),
  display_name: z
    .string()
    .max(200)
    .default('')
    .describe('Text for people.')
    .meta({ examples: ['Globex Corporation'] }),
})

export type PartyValues = z.output<typeof partySchema>
