import type { EntityManager } from '@mikro-orm/postgresql'
import { WaybillError, type ErrorCode } from '../../runtime/errors.ts'

/** A record that refers to another one, which therefore cannot be deleted or renamed. */
export interface RecordUser {
  /** The resource in the singular: `route`, `as2-local-profile`, `as2-remote-profile`. */
  readonly kind: string
  readonly name: string
  /** The properties that refer. */
  readonly fields: readonly string[]
  /** Path below the API's address. */
  readonly link: string
}

/** `details.users` lists at most so many; `details.total` counts all. */
const USERS_LISTED = 25

/**
 * Throws when a query finds users. It answers rows of `kind`, `name`, `fields` (text array) and `link`, and takes
 * its values in order. Call it in the transaction that locked the record.
 */
export async function refuseWhileUsed(
  em: EntityManager,
  refusal: { readonly code: ErrorCode; readonly subject: string },
  users: { readonly query: string; readonly values: readonly unknown[] },
): Promise<void> {
  const rows = await em.execute<(RecordUser & { total: number })[]>(
    `with users as (${users.query})
     select kind, name, fields, link, (select count(*)::int from users) as total
     from users order by kind, name, link limit ${USERS_LISTED}`,
    [...users.values],
  )
  const [first] = rows
  if (first === undefined) return
  const listed = rows.map(({ kind, name, fields, link }) => ({ kind, name, fields, link }))
  const named = listed.map(({ kind, name, fields }) => `${kind} ${name} (${fields.join(', ')})`)
  const rest = first.total > listed.length ? ` and ${first.total - listed.length} more` : ''
  throw new WaybillError(refusal.code, `${refusal.subject} is used by ${named.join(', ')}${rest}`, {
    users: listed,
    total: first.total,
  })
}
