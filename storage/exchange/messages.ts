import { query, type Queryable } from '../postgres/pool.ts'
import type { StoredStage } from './stages.ts'
import type { DeliveryState, Direction, HistoryKind, PayloadStage, Stage, Status } from './states.ts'

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
  readonly payloads: Readonly<Partial<Record<PayloadStage, StoredPayloadView>>>
  /** The stored facts by module name; a module turns its own into what the API shows. */
  readonly protocols: Readonly<Record<string, unknown>>
}

export interface StoredPayloadView {
  readonly size_bytes: number
  readonly stored_at: Date
  /** Lower case hexadecimal; what is read is held against it. */
  readonly sha256: string
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

/** What is left out does not filter. */
export interface MessageFilter {
  readonly status?: Status | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
  /** Created then or later: RFC 3339 in UTC, to the microsecond. */
  readonly since?: string | undefined
}

/** Timestamps inside of JSON are text. */
type Dated<Row, Keys extends keyof Row> = Omit<Row, Keys> & { readonly [Key in Keys]: string | null }

type HistoryRow = { readonly [Key in keyof Required<HistoryLine>]: HistoryLine[Key] | string | null }

interface MessageRow extends Omit<MessageView, 'deliveries' | 'history' | 'payloads'> {
  readonly deliveries: readonly Dated<
    DeliveryView,
    'created_at' | 'updated_at' | 'finished_at' | 'next_attempt_at'
  >[]
  readonly history: readonly HistoryRow[]
  readonly payloads: Readonly<Record<string, StoredStage>>
}

/**
 * A message with all that belongs to it, read by one statement and so at one moment: its status always agrees with
 * its deliveries, and both with the history. The next attempt is told by the server's date, see 008.
 */
const VIEW = `id, status, stage, direction, source, from_party as "from", to_party as "to", file_name, content_type,
  size_bytes, m.created_at, m.updated_at, settled_at, payloads, protocols,
  (select coalesce(json_agg(d order by d.created_at, d.target), '[]') from (
    select id, target, state, attempts, next_attempt_at - (select shift from exchange_clock) as next_attempt_at, last_error, created_at, updated_at, finished_at
    from delivery where message_id = m.id) d) as deliveries,
  (select coalesce(json_agg(h order by h.id), '[]') from history h where h.message_id = m.id) as history`

export async function findMessage(on: Queryable, id: string): Promise<MessageView | null> {
  const [row] = await query<MessageRow>(
    on,
    `select ${VIEW} from message m where id = $1`,
    [id],
    'find-message',
  )
  return row === undefined ? null : viewOf(row)
}

/**
 * A page of the messages that match, newest first, and how many match in all: as they all are at one moment, in a time
 * that does not grow with their number (see the function `message_page`).
 */
export async function listMessages(
  on: Queryable,
  filter: MessageFilter,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ messages: MessageView[]; total: number }> {
  const { status = null, from = null, to = null, since = null } = filter
  // The database counts with 64 bits; so far back there is nothing anyway.
  const offset = Math.min(page.offset, LARGEST_OFFSET)
  const values = [status, from, to, since, page.limit, offset]
  const rows = await query<MessageRow & { total: number; position: number | null }>(
    on,
    LIST,
    values,
    'list-messages',
  )
  const messages = rows.flatMap((row) => {
    const { total: _, position, ...message } = row
    return position === null ? [] : [viewOf(message)]
  })
  return { messages, total: rows[0]?.total ?? 0 }
}

const LARGEST_OFFSET = 2 ** 52

/** The first row is there also when the page is empty. */
const LIST = `
select p.total, listed.position, ${VIEW}
from message_page($1, $2, $3, $4, $5, $6) p
left join lateral unnest(p.ids) with ordinality as listed(message_id, position) on true
left join message m on m.id = listed.message_id
order by listed.position`

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
    history: row.history.map(lineOf),
    payloads: Object.fromEntries(
      Object.entries(row.payloads).map(([stage, facts]) => [
        stage,
        { size_bytes: facts.size_bytes, stored_at: dateOf(facts.stored_at), sha256: facts.sha256 },
      ]),
    ),
  }
}

/** Left out here and not by the statement, to which it is as much work as all the rest of the line. */
function lineOf(row: HistoryRow): HistoryLine {
  const said = Object.entries(row).filter(([, value]) => value !== null)
  return {
    ...(Object.fromEntries(said) as unknown as HistoryLine),
    created_at: new Date(String(row.created_at)),
  }
}

function dateOf(text: string | null): Date {
  if (text === null) throw new Error('A timestamp is missing')
  return new Date(text)
}
