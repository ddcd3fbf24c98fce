import { randomUUID } from 'node:crypto'
import { defineEntity, p, type InferEntity } from '@mikro-orm/core'

/** A plugin instance as it is stored. Its rules are those of its type. */
export const PluginConfigurationEntity = defineEntity({
  name: 'PluginConfiguration',
  tableName: 'plugin_configuration',
  properties: {
    name: p.text().primary(),
    type: p.text(),
    role: p.enum(['source', 'target', 'notifier'] as const),
    enabled: p.boolean(),
    settings: p.json<Record<string, unknown>>(),
    /** Sealed JSON object of the write-only properties. */
    secrets: p.text(),
    /** The database makes another one when the instance is disabled. */
    generation: p.uuid().onCreate(() => randomUUID()),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type StoredPluginConfiguration = InferEntity<typeof PluginConfigurationEntity>
