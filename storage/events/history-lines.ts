import type { HistoryLine } from '../exchange/messages.ts'
import { query, type Queryable } from '../postgres/pool.ts'

/** Lines of the history by their ids, which are the ids of events. Null for a message is lines of all messages. */

export interface LinesRange {
  /** Lines with larger ids than this one. */
  readonly after: number
  readonly upTo: number
  readonly messageId: string | null
}

const COLUMNS =
  'id, message_id, created_at, kind, old_status, new_status, delivery_id, target, old_state, new_state, text'

/** In the order of ids, at most so many. */
export async function readLines(on: Queryable, range: LinesRange, most: number): Promise<HistoryLine[]> {
  const { after, upTo, messageId } = range
  const rows =
    messageId === null
      ? await query<HistoryLine>(
          on,
          `select ${COLUMNS} from history where id > $1 and id <= $2 order by id limit $3`,
          [after, upTo, most],
          'history-lines',
        )
      : await query<HistoryLine>(
          on,
          `select ${COLUMNS} from history where message_id = $4 and id > $1 and id <= $2 order by id limit $3`,
          [after, upTo, most, messageId],
          'history-lines-of-message',
        )
  return rows.map(withoutNulls)
}

/** How many lines there are, counted up to a bound. */
export async function countLines(on: Queryable, range: LinesRange, most: number): Promise<number> {
  const { after, upTo, messageId } = range
  const [row] =
    messageId === null
      ? await query<{ n: number }>(
          on,
          'select count(*) as n from (select from history where id > $1 and id <= $2 limit $3) line',
          [after, upTo, most],
          'count-history-lines',
        )
      : await query<{ n: number }>(
          on,
          'select count(*) as n from (select from history where message_id = $4 and id > $1 and id <= $2 limit $3) line',
          [after, upTo, most, messageId],
          'count-history-lines-of-message',
        )
  return row?.n ?? 0
}

/** Ids that have no line, or none yet that is committed: in order, at most so many. */
export async function missingIds(
  on: Queryable,
  after: number,
  upTo: number,
  most: number,
): Promise<readonly number[]> {
  const rows = await query<{ id: number }>(
    on,
    `select id from generate_series($1::bigint + 1, $2::bigint) as given (id)
     where not exists (select from history h where h.id = given.id) order by id limit $3`,
    [after, upTo, most],
    'missing-history-ids',
  )
  return rows.map(({ id }) => id)
}

/** What a line does not say is left out of it. */
function withoutNulls(row: HistoryLine): HistoryLine {
  return Object.fromEntries(
    Object.entries(row).filter(([, value]) => value !== null),
  ) as unknown as HistoryLine
}
