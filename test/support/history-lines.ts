import { execute, query, type Queryable } from '../../storage/postgres/pool.ts'

/** Writes lines into the history of a message; answers their ids in order. */
export async function writeLines(
  on: Queryable,
  messageId: string,
  count = 1,
  text = 'again',
): Promise<number[]> {
  const rows = await query<{ id: number }>(
    on,
    `insert into history (message_id, kind, text)
     select $1, 'duplicate_received', $3 from generate_series(1, $2) returning id`,
    [messageId, count, text],
  )
  return rows.map(({ id }) => id)
}

/** Ends the connection that runs the process `pid` of the server, as a lost client or an operator would. */
export function terminate(on: Queryable, pid: number): Promise<number> {
  return execute(on, 'select pg_terminate_backend($1)', [pid])
}
