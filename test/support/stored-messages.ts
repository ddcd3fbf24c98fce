import { randomUUID } from 'node:crypto'
import { execute, type Queryable } from '../../storage/postgres/pool.ts'
import type { Direction, Status } from '../../storage/exchange/states.ts'

export interface StoredMessages {
  readonly count?: number
  readonly direction?: Direction
  readonly status?: Status
  /** How long ago they were accepted, as PostgreSQL writes an interval. */
  readonly age?: string
}

const IN_FLIGHT: ReadonlySet<Status> = new Set(['InProgress', 'Retrying', 'AwaitingReceipt'])

/** Puts messages into the database as if they had been accepted some time ago; answers their ids. */
export async function storeMessages(on: Queryable, messages: StoredMessages = {}): Promise<string[]> {
  const { count = 1, direction = 'outbound', status = 'Delivered', age = '0' } = messages
  const ids = Array.from({ length: count }, () => randomUUID())
  const stage = status === 'Received' ? 'accepted' : IN_FLIGHT.has(status) ? 'dispatched' : 'settled'
  await execute(
    on,
    `insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type, size_bytes,
       created_at, settled_at)
     select id, $2, $3, $4, 'source', 'acme', 'globex', 'invoice.edi', 'application/edifact', 7,
       now() - $5::interval, case when $3 = 'settled' then now() end
     from unnest($1::uuid[]) as given (id)`,
    [ids, direction, stage, status, age],
  )
  return ids
}

/** Notes in the history of messages that they reached a status some time ago. */
export async function reachStatus(
  on: Queryable,
  ids: readonly string[],
  status: Status,
  age = '0',
): Promise<void> {
  await execute(
    on,
    `insert into history (message_id, created_at, kind, old_status, new_status)
     select id, now() - $3::interval, 'status_changed', 'InProgress', $2 from unnest($1::uuid[]) as given (id)`,
    [ids, status, age],
  )
}
