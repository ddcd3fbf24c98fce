import type { ApiClient } from './client.ts'

/** An event as GET /audit shows it. */
export interface AuditEvent {
  readonly id: number
  readonly actor: string
  readonly action: string
  readonly kind: string
  readonly record_id: number | string | null
  readonly record_name: string
  readonly changes: readonly FieldOfChange[]
  readonly record_gone: boolean
}

export interface FieldOfChange {
  readonly field: string
  readonly old?: unknown
  readonly new?: unknown
  readonly secret?: true
}

/** What an event says that a test knows beforehand. */
export type Told = Pick<AuditEvent, 'actor' | 'action' | 'kind' | 'record_id' | 'record_name' | 'changes'>

/** The page is the largest that a list gives. */
const MOST_EVENTS = 500

/** Oldest first. */
export async function auditEvents(client: ApiClient): Promise<readonly AuditEvent[]> {
  const { data, status, text } = await client.get(`/audit?limit=${MOST_EVENTS}`)
  if (status !== 200) throw new Error(`GET /audit is answered with ${text}`)
  if (Number(data['total']) > MOST_EVENTS) throw new Error('The log has more events than a page')
  return (data['events'] as AuditEvent[]).toReversed()
}

/** What the events say that `work` leaves in the log, oldest first. */
export async function eventsOf(client: ApiClient, work: () => Promise<unknown>): Promise<readonly Told[]> {
  const before = await auditEvents(client)
  await work()
  const after = await auditEvents(client)
  return after.slice(before.length).map(told)
}

function told(event: AuditEvent): Told {
  const { actor, action, kind, record_id, record_name, changes } = event
  return { actor, action, kind, record_id, record_name, changes }
}
