import { query, type Queryable } from '../postgres/pool.ts'
import type { StoredStage } from './stages.ts'
import type { DeliveryState, Direction, HistoryKind, Stage, Status } from './states.ts'

/** A message as the API shows it (specification, 2.7). */
export interface MessageView {
  readonly id: string
  readonly status: Status
  readonly stage: Stage
  readonly direction: Direction
  readonly source: string
  readonly from: string
  readonly to: string
  readonly file_name: string
  readonly content_type: string
  readonly size_bytes: number
  readonly created_at: Date
  readonly updated_at: Date
  readonly settled_at: Date | null
  readonly deliveries: readonly DeliveryView[]
  readonly history: readonly HistoryLine[]
  readonly payloads: Readonly<Record<string, { readonly size_bytes: number; readonly stored_at: Date }>>
  /** The stored facts by module name; a module turns its own into what the API shows. */
  readonly protocols: Readonly<Record<string, unknown>>
}

export interface DeliveryView {
  readonly id: number
  readonly target: string
  readonly state: DeliveryState
  readonly attempts: number
  readonly next_attempt_at: Date | null
  readonly last_error: string | null
  readonly created_at: Date
  readonly updated_at: Date
  readonly finished_at: Date | null
}

/** What a line does not say is left out of it. */
export interface HistoryLine {
  readonly id: number
  readonly message_id: string
  readonly created_at: Date
  readonly kind: HistoryKind
  readonly old_status?: Status
  readonly new_status?: Status
  readonly delivery_id?: number
  readonly target?: string
  readonly old_state?: DeliveryState
  readonly new_state?: DeliveryState
  readonly text?: string
}

export interface MessageFilter {
  readonly status?: Status | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly since?: Date | undefined
}

/** Timestamps inside of JSON are text. */
type Dated<Row, Keys extends keyof Row> = Omit<Row, Keys> & { readonly [Key in Keys]: string | null }

interface MessageRow extends Omit<MessageView, 'deliveries' | 'history' | 'payloads'> {
  readonly deliveries: readonly Dated<
    DeliveryView,
    'created_at' | 'updated_at' | 'finished_at' | 'next_attempt_at'
  >[]
  readonly history: readonly Dated<HistoryLine, 'created_at'>[]
  readonly payloads: Readonly<Record<string, StoredStage>>
}

/**
 * A message with all that belongs to it, read by one statement and so at one moment: its status always agrees with
 * its deliveries, and both with the history.
 */
const VIEW = `id, status, stage, direction, source, from_party as "from", to_party as "to", file_name, content_type,
  size_bytes, created_at, updated_at, settled_at, payloads, protocols,
  (select coalesce(json_agg(d order by d.created_at, d.target), '[]') from (
    select id, target, state, attempts, next_attempt_at, last_error, created_at, updated_at, finished_at
    from delivery where message_id = m.id) d) as deliveries,
  (select coalesce(json_agg(json_strip_nulls(to_json(h)) order by h.id), '[]')
    from history h where h.message_id = m.id) as history`

export async function findMessage(on: Queryable, id: string): Promise<MessageView | null> {
  const [row] = await query<MessageRow>(on, `select ${VIEW} from message m where id = $1`, [id])
  return row === undefined ? null : viewOf(row)
}

/** A page of the messages that match, newest first, and how many match in all. */
export async function listMessages(
  on: Queryable,
  filter: MessageFilter,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ messages: MessageView[]; total: number }> {
  const values: unknown[] = []
  const conditions: string[] = []
  const where = (condition: string, value: unknown): void => {
    if (value === undefined) return
    values.push(value)
    conditions.push(`${condition} $${values.length}`)
  }
  where('status =', filter.status)
  where('from_party =', filter.from)
  where('to_party =', filter.to)
  where('created_at >=', filter.since)
  const clause = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`
  const [counted, listed] = await Promise.all([
    query<{ total: number }>(on, `select count(*)::int as total from message ${clause}`, values),
    query<MessageRow>(
      on,
      `select ${VIEW} from (
        select * from message ${clause} order by created_at desc, id desc limit ${page.limit} offset ${page.offset}
      ) m order by created_at desc, id desc`,
      values,
    ),
  ])
  return { messages: listed.map(viewOf), total: counted[0]?.total ?? 0 }
}

function viewOf(row: MessageRow): MessageView {
  return {
    ...row,
    deliveries: row.deliveries.map((delivery) => ({
      ...delivery,
      created_at: dateOf(delivery.created_at),
      updated_at: dateOf(delivery.updated_at),
      finished_at: delivery.finished_at === null ? null : dateOf(delivery.finished_at),
      next_attempt_at: delivery.next_attempt_at === null ? null : dateOf(delivery.next_attempt_at),
    })),
    history: row.history.map((line) => ({ ...line, created_at: dateOf(line.created_at) })),
    payloads: Object.fromEntries(
      Object.entries(row.payloads).map(([stage, facts]) => [
        stage,
        { size_bytes: facts.size_bytes, stored_at: dateOf(facts.stored_at) },
      ]),
    ),
  }
}

function dateOf(text: string | null): Date {
  if (text === null) throw new Error('A timestamp is missing')
  return new Date(text)
}
