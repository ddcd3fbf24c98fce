import { crashPoint } from '../../runtime/crash-point.ts'
import { query, type Queryable } from '../postgres/pool.ts'

export interface PluginFailure {
  readonly type: string
  readonly name: string
  /** Name of the node on which it failed. */
  readonly node: string
  readonly reason: string
  /** Whether its start is tried again by itself: only the database was away. */
  readonly retries: boolean
  /** When it failed; the same failure is told once, however often it is raised. */
  readonly at: Date
}

/** Alerts that an instance could not be started, or was given up after it broke down again and again. */
export async function raisePluginFailed(on: Queryable, failure: PluginFailure): Promise<void> {
  const { type, name, node, reason, at, retries } = failure
  await query(on, 'select raise_plugin_failed($1, $2, $3, $4, $5, $6)', [
    type,
    name,
    node,
    reason,
    at,
    retries,
  ])
  crashPoint('notification.plugin-failed-raised')
}
