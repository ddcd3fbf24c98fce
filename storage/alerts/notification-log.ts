import type { Pool } from 'pg'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import { query, type Queryable } from '../postgres/pool.ts'
import type { Alert, Severity } from './alert.ts'

/** The notification log: one row per alert and notifier (specification, 2.14). */

export const OUTCOMES = ['queued', 'delivered', 'failed', 'suppressed_cooldown', 'grouped'] as const

export type Outcome = (typeof OUTCOMES)[number]

export interface Notification extends Omit<Alert, 'id'> {
  readonly id: number
  readonly alert_id: number
  readonly instance: string
  readonly format: string
  readonly outcome: Outcome
  readonly attempts: number
  readonly last_error: string | null
  readonly created_at: Date
  readonly delivered_at: Date | null
}

/** What is left out does not filter. */
export interface NotificationFilter {
  readonly severity?: Severity | undefined
  readonly code?: string | undefined
  readonly instance?: string | undefined
  readonly outcome?: Outcome | undefined
  /** Alerted at this time or later: RFC 3339 in UTC. */
  readonly from?: string | undefined
  /** Alerted before this time. */
  readonly to?: string | undefined
  /** Test notifications are left out unless this is true. */
  readonly include_tests?: boolean | undefined
}

const CONDITIONS = {
  severity: 'severity = ',
  code: 'code = ',
  instance: 'instance = ',
  outcome: 'outcome = ',
  from: 'alert_time >= ',
  to: 'alert_time < ',
} as const satisfies Record<Exclude<keyof NotificationFilter, 'include_tests'>, string>

/** The database counts with 64 bits; so far back there is nothing anyway. */
const LARGEST_OFFSET = 2 ** 52

const COLUMNS = `n.alert_id, a.alert_time, a.severity, a.code, a.subject_kind, a.subject_id, a.subject_name, a.summary,
  a.details, a.dedupe_key, a.link_path, n.instance, coalesce(c.format, n.format) as format, n.test, n.outcome, n.attempts,
  n.last_error, n.created_at, coalesce(c.delivered_at, n.delivered_at) as delivered_at`

/** A row, its alert, and the row whose post it went along with. */
const JOINED =
  'notification n join alert a on a.id = n.alert_id left join notification c on c.id = n.carrier_id'

/** The first row is there also when the page is empty: then it has no id. */
interface ListedRow extends Omit<Notification, 'id'> {
  readonly id: number | null
  readonly total: number
}

/** A page of the rows that match, newest alert first, and how many match in all, as they are at one moment. */
export async function listNotifications(
  pool: Pool,
  filter: NotificationFilter,
  { limit, offset }: PageRequest,
): Promise<Page<Notification>> {
  const given = Object.entries(CONDITIONS).flatMap(([name, condition]) => {
    const value = filter[name as keyof typeof CONDITIONS]
    return value === undefined ? [] : [{ condition, value }]
  })
  const conditions = [
    ...(filter.include_tests === true ? [] : ['not test']),
    ...given.map(({ condition }, at) => `${condition}$${at + 1}`),
  ]
  const where = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`
  // The page's ids come from an index alone; its bounds stand in the text, so that the plan knows its size.
  const page = `select id from notification ${where} order by alert_time desc, id desc
    limit ${Math.trunc(limit)} offset ${Math.trunc(Math.min(offset, LARGEST_OFFSET))}`
  const rows = await query<ListedRow>(
    pool,
    `select counted.total, n.id, ${COLUMNS}
     from (select count(*) from notification ${where}) counted (total)
     left join ((${page}) p (page_id) join (${JOINED}) on n.id = p.page_id) on true
     order by n.alert_time desc, n.id desc`,
    given.map(({ value }) => value),
  )
  let total = 0
  const items: Notification[] = []
  for (const { id, total: counted, ...row } of rows) {
    total = counted
    if (id !== null) items.push({ id, ...row })
  }
  return { items, total }
}

/** One row of the log, tests too; null when there is none. */
export async function notificationOf(on: Queryable, id: number): Promise<Notification | null> {
  const [row] = await query<Notification>(on, `select n.id, ${COLUMNS} from ${JOINED} where n.id = $1`, [id])
  return row ?? null
}

/**
 * Makes a test notification for this notifier alone, whatever its filters say, enabled or not. Answers the id of its row,
 * or null when there is no such notifier.
 */
export async function raiseTest(on: Queryable, name: string): Promise<number | null> {
  const [row] = await query<{ id: number | null }>(on, 'select raise_test($1) as id', [name])
  return row?.id ?? null
}
