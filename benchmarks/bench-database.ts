import pg from 'pg'
import type { EmbeddedServer } from '../storage/postgres/embedded.ts'

/** The same server, another database. */
export function urlOf(url: string, database: string): string {
  const other = new URL(url)
  other.pathname = `/${database}`
  return other.href
}

/** As the superuser. */
export async function connected(
  { superuserUrl }: EmbeddedServer,
  database: string,
  running: AsyncDisposableStack,
): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: urlOf(superuserUrl, database) })
  await client.connect()
  running.defer(() => client.end())
  return client
}

export async function countOf(database: pg.Client, from: string): Promise<number> {
  const { rows } = await database.query<{ count: string }>(`select count(*) from ${from}`)
  return Number(rows[0]?.count)
}
