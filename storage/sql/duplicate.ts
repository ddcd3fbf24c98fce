import { query, type Queryable } from '../postgres/pool.ts'

/** A message that was received before, as its repeat finds it. */
export interface KnownMessage {
  readonly id: string
  readonly protocols: Readonly<Record<string, unknown>>
  /** Of the bytes that it came as, lower case hexadecimal; null where that was not kept. */
  readonly received_sha256: string | null
  /** The same of what was in it. */
  readonly content_sha256: string | null
}

/**
 * Finds the message with a duplicate key; null when there is none. `except` is the id of a message that cannot be the
 * repeat of itself, or null.
 */
export async function findDuplicate(
  on: Queryable,
  duplicateKey: Buffer,
  except: string | null = null,
): Promise<KnownMessage | null> {
  const [known] = await query<KnownMessage>(
    on,
    `select id, protocols, payloads -> 'received' ->> 'sha256' as received_sha256,
       payloads -> 'unpacked' ->> 'sha256' as content_sha256
     from message where duplicate_key = $1 and id is distinct from $2::uuid`,
    [duplicateKey, except],
    'find-duplicate',
  )
  return known ?? null
}

/** Lines about repeats of one message; what comes after them is not told: whoever has its bytes can send them for ever. */
const MAX_REPEAT_LINES = 100

/** Writes a repeat into the history of its message. Several at the same moment may get past the bound, by so many. */
export async function noteDuplicate(on: Queryable, messageId: string, text: string): Promise<void> {
  await query<object>(
    on,
    `insert into history (message_id, kind, text) select $1::uuid, 'duplicate_received', $2
     where (select count(*) from history where message_id = $1::uuid and kind = 'duplicate_received') < $3`,
    [messageId, text, MAX_REPEAT_LINES],
    'note-duplicate',
  )
}
