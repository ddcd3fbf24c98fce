import { query, type Queryable } from '../postgres/pool.ts'

/** A message that was received before, as its repeat finds it. */
export interface KnownMessage {
  readonly id: string
  readonly protocols: Readonly<Record<string, unknown>>
}

/**
 * Finds the message with a duplicate key and writes the repeat into its history; null when there is none. `except` is
 * the id of a message that cannot be the repeat of itself, or null.
 */
export async function recordDuplicate(
  on: Queryable,
  duplicateKey: Buffer,
  text: string,
  except: string | null = null,
): Promise<KnownMessage | null> {
  const [known] = await query<KnownMessage>(
    on,
    `with known as (select id, protocols from message where duplicate_key = $1 and id is distinct from $3::uuid),
      line as (insert into history (message_id, kind, text) select id, 'duplicate_received', $2 from known)
      select id, protocols from known`,
    [duplicateKey, text, except],
    'record-duplicate',
  )
  return known ?? null
}
