import type { Pool } from 'pg'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import { query } from '../postgres/pool.ts'
import type { FieldChange } from './changes.ts'
import { AUDIT_KIND_PLACES, type AuditAction, type AuditKind } from './kinds.ts'
import { EVENT_COLUMNS, type StoredEvent } from './stored-event.ts'

/** An event as the API shows it (specification, 2.15). */
export interface AuditEvent extends Omit<StoredEvent, 'action' | 'kind' | 'record_id' | 'changes'> {
  readonly action: AuditAction
  readonly kind: AuditKind
  /** As the record's own resource shows it: a number, or the text of a kind whose ids are texts. */
  readonly record_id: string | number | null
  readonly changes: FieldChange[]
  /** Whether there is no record of this kind and id now. */
  readonly record_gone: boolean
}

/** What is left out does not filter. */
export interface AuditFilter {
  readonly kind?: AuditKind | undefined
  readonly action?: AuditAction | undefined
  readonly actor?: string | undefined
  readonly record_id?: string | undefined
  readonly record_name?: string | undefined
  /** At this time or later: RFC 3339 in UTC. */
  readonly from?: string | undefined
  /** Before this time. */
  readonly to?: string | undefined
}

const CONDITIONS = {
  kind: 'kind = ',
  action: 'action = ',
  actor: 'actor = ',
  record_id: 'record_id = ',
  record_name: 'record_name = ',
  from: 'at >= ',
  to: 'at < ',
} as const satisfies Record<keyof AuditFilter, string>

/** The database counts with 64 bits; so far back there is nothing anyway. */
const LARGEST_OFFSET = 2 ** 52

/** A page of the events that match, newest first, and how many match in all, as they are at one moment. */
export async function listEvents(
  pool: Pool,
  filter: AuditFilter,
  { limit, offset }: PageRequest,
): Promise<Page<AuditEvent>> {
  const given = Object.entries(CONDITIONS).flatMap(([name, condition]) => {
    const value = filter[name as keyof AuditFilter]
    return value === undefined ? [] : [{ condition, value }]
  })
  const conditions = given.map(({ condition }, at) => `${condition}$${at + 1}`)
  const where = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`
  const count = `select count(*) from audit_event ${where}`
  // The page's ids come from an index alone, so that a page far back does not read all events before it. Its bounds
  // stand in the text: the plan for a page of unknown size would read the whole table.
  const page = `select id from audit_event ${where} order by at desc, id desc
    limit ${Math.trunc(limit)} offset ${Math.trunc(Math.min(offset, LARGEST_OFFSET))}`
  const rows = await query<ListedRow>(
    pool,
    `select counted.total, id, ${EVENT_COLUMNS}, ${RECORD_GONE} as gone
     from (${count}) counted (total)
     left join (audit_event e join (${page}) p using (id)) on true
     order by e.at desc, e.id desc`,
    given.map(({ value }) => value),
  )
  const items = rows.flatMap((row) => (row.id === null ? [] : [shown(row, row.id)]))
  return { items, total: rows[0]?.total ?? 0 }
}

/** The first row is there also when the page is empty: then it has no id. */
interface ListedRow extends Omit<StoredEvent, 'id'> {
  readonly id: number | null
  readonly gone: boolean
  readonly total: number
}

function shown(row: ListedRow, id: number): AuditEvent {
  const { v, at, actor, action, kind, record_id, record_name, changes, prev_hash, hash, gone } = row
  const isNumber = record_id !== null && placeOf(kind)?.id === 'number' && /^\d{1,15}$/.test(record_id)
  return {
    v,
    id,
    at,
    actor,
    action: action as AuditAction,
    kind: kind as AuditKind,
    record_id: isNumber ? Number(record_id) : record_id,
    record_name,
    changes: JSON.parse(changes) as FieldChange[],
    prev_hash,
    hash,
    record_gone: gone,
  }
}

function placeOf(kind: string) {
  return Object.hasOwn(AUDIT_KIND_PLACES, kind) ? AUDIT_KIND_PLACES[kind as AuditKind] : undefined
}

/** Of the event `e`. An id that no record can have is that of a record that is gone. */
const RECORD_GONE = `case when e.record_id is null then false ${Object.entries(AUDIT_KIND_PLACES)
  .map(([kind, place]) => [kind, lookupOf(place)] as const)
  .map(([kind, lookup]) => (lookup === null ? '' : `when e.kind = '${kind}' then not exists (${lookup})`))
  .join('\n')} else false end`

function lookupOf(place: (typeof AUDIT_KIND_PLACES)[AuditKind]): string | null {
  if (place.id === 'none') return null
  if (place.id === 'instance') {
    return `select from plugin_configuration r
      where r.type = split_part(e.record_id, ':', 1) and r.name = split_part(e.record_id, ':', 2)`
  }
  return `select from ${place.table} r
    where r.${place.column} = case when e.record_id ~ '^[0-9]{1,15}$' then e.record_id::bigint end`
}
