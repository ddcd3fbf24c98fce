import { query, type Queryable } from '../postgres/pool.ts'

/** The open settings of the enabled instances of a type, in the order in which they were saved first. */
export async function enabledSettings(
  on: Queryable,
  type: string,
): Promise<Readonly<Record<string, unknown>>[]> {
  const rows = await query<{ settings: Readonly<Record<string, unknown>> }>(
    on,
    'select settings from plugin_configuration where type = $1 and enabled order by created_at, name',
    [type],
    'enabled-settings',
  )
  return rows.map(({ settings }) => settings)
}
