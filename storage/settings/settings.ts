import { query, type Queryable } from '../postgres/pool.ts'

/** The one settings record (specification, 2.11). It is read when the process starts. */
export interface Settings {
  readonly storage_backend: 'local' | 's3'
  /** Relative to the working directory. */
  readonly storage_local_directory: string
  readonly delivery_max_dispatches: number
  readonly identification_hide_version: boolean
}

export async function readSettings(on: Queryable): Promise<Settings> {
  const [settings] = await query<Settings>(
    on,
    'select storage_backend, storage_local_directory, delivery_max_dispatches, identification_hide_version from settings',
  )
  if (settings === undefined) throw new Error('The settings record is missing')
  return settings
}
