import type { Pool } from 'pg'
import { reasonOf } from '../../runtime/errors.ts'
import { StorageError } from '../storage-error.ts'
import { query } from './pool.ts'

/** Where a URL leads, for a message: never the user or the password. */
export function describeUrl(url: string): string {
  const { hostname, port, pathname, searchParams } = new URL(url)
  const socket = searchParams.get('host')
  const place = socket ?? `${hostname}:${port === '' ? '5432' : port}`
  return `${place}${pathname}`
}

const OLDEST_SERVER = 150_000

/** Refuses a server that cannot be reached or that is older than PostgreSQL 15, each in one sentence. */
export async function checkServer(pool: Pool, url: string): Promise<void> {
  const versions = await query<{ number: number; text: string }>(
    pool,
    `select current_setting('server_version_num')::int as number, current_setting('server_version') as text`,
  ).catch((thrown: unknown) => {
    throw unusable(url, thrown)
  })
  refuseOld(url, versions[0] ?? { number: 0, text: 'of an unknown version' })
}

export function refuseOld(url: string, version: { readonly number: number; readonly text: string }): void {
  if (version.number >= OLDEST_SERVER) return
  throw new StorageError(
    `The database ${describeUrl(url)} runs PostgreSQL ${version.text}; Waybill needs 15 or newer`,
  )
}

/** A connection that failed, as one sentence. */
export function unusable(url: string, thrown: unknown): StorageError {
  // A refused connection to a name with several addresses is an AggregateError with an empty message.
  const reason = thrown instanceof AggregateError ? thrown.errors.map(reasonOf).join(', ') : reasonOf(thrown)
  return new StorageError(`The database ${describeUrl(url)} cannot be used: ${reason}`, { cause: thrown })
}
