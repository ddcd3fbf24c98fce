import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import type { RecordRules } from '../../runtime/endpoint/record-rules.ts'
import { storageSettings } from './storage-settings.ts'

/** The one settings record (specification, 2.11). It is read when the process starts. */

export const SettingsEntity = defineEntity({
  name: 'Settings',
  tableName: 'settings',
  properties: {
    /** Always true: there is one record, which the first migration made. */
    only_record: p.boolean().primary(),
    storage_backend: p.enum(['local', 's3'] as const),
    storage_local_directory: p.text(),
    storage_s3_bucket: p.text(),
    storage_s3_region: p.text(),
    storage_s3_endpoint: p.text(),
    delivery_max_dispatches: p.integer(),
    identification_hide_version: p.boolean(),
    updated_at: p.datetime().onUpdate(() => new Date()),
  },
})

export type StoredSettings = InferEntity<typeof SettingsEntity>

const blank = (value: unknown): boolean => typeof value === 'string' && value.trim() === ''
/** Also beside a property of a wrong type, so that all that is wrong is told at once. */
const always = { when: () => true }

export const settingsSchema = z
  .strictObject({
    ...storageSettings,
    delivery_max_dispatches: z
      .int()
      .min(1)
      .max(20)
      .default(5)
      .describe(
        'How often a delivery that no target claims is announced before it is marked stalled. The waits after each grow from 10 seconds to 10 minutes: about 23 minutes in all for 5. Takes effect when the process starts.',
      )
      .meta({ examples: [5] }),
    identification_hide_version: z
      .boolean()
      .default(false)
      .describe(
        'Whether the User-Agent of requests that the service sends and the Server header of its AS2 answers are `Waybill` alone; otherwise they are `Waybill/<version>`. Takes effect when the process starts.',
      )
      .meta({ examples: [false] }),
  })
  .refine(
    ({ storage_backend, storage_local_directory }) =>
      storage_backend !== 'local' || !blank(storage_local_directory),
    { path: ['storage_local_directory'], error: 'is required for local storage', ...always },
  )
  .refine(({ storage_backend, storage_s3_bucket }) => storage_backend !== 's3' || !blank(storage_s3_bucket), {
    path: ['storage_s3_bucket'],
    error: 'is required for S3 storage',
    ...always,
  })
  .refine(({ storage_backend, storage_s3_region }) => storage_backend !== 's3' || !blank(storage_s3_region), {
    path: ['storage_s3_region'],
    error: 'is required for S3 storage',
    ...always,
  })

export type SettingsValues = z.output<typeof settingsSchema>

export const settingsRules: RecordRules<typeof settingsSchema> = {
  name: 'Settings',
  schema: settingsSchema,
  readOnly: ['updated_at', 'storage_in_use', 'restart_needed'],
  identity: {},
}

/** A stored record's own properties. */
export function valuesOf(stored: StoredSettings): SettingsValues {
  const { only_record: _, updated_at: __, ...values } = stored
  return values
}
