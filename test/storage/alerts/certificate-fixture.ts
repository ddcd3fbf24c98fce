import { randomBytes } from 'node:crypto'
import type { Pool } from 'pg'
import { query } from '../../../storage/postgres/pool.ts'
import { tick } from '../../../storage/sql/maintain.ts'
import { createTestDatabase, type Teardown, type TestDatabase } from '../../support/database.ts'
import { alertsOf, notifier } from './fixture.ts'

/** Certificates and what names them, for the alerts of those that end. */

export const NODE = 'node-1'
export const DAY_HOURS = 24

/** A database whose clock this node holds, without anybody to tell. */
export async function siteWithoutNotifier(t: Teardown): Promise<TestDatabase> {
  const database = await createTestDatabase(t)
  await tick(database.pool, NODE, 3_600)
  return database
}

/** The same with a notifier that takes warnings. */
export async function site(t: Teardown): Promise<Pool> {
  const { pool } = await siteWithoutNotifier(t)
  await notifier(pool, 'hook')
  return pool
}

export async function certificate(pool: Pool, endsInHours: number, name = 'globex edi'): Promise<number> {
  const [row] = await query<{ id: number }>(
    pool,
    `insert into certificate (common_name, subject, issuer, serial_number, not_before, not_after, fingerprint_sha256,
       fingerprint_sha1, key_algorithm, key_size, signature_algorithm, is_ca, der)
     values ($1, 'CN=' || $1, 'CN=' || $1, '0a', now() - interval '1 year', now() + make_interval(secs => $2 * 3600.0), $3,
       $4, 'RSA', 2048, 'sha256', false, '')
     returning id`,
    [name, endsInHours, randomBytes(32).toString('hex'), randomBytes(20).toString('hex')],
  )
  return row?.id ?? 0
}

/** The certificate ends then: as if time had passed, or the clock were changed. */
export async function endsIn(pool: Pool, id: number, hours: number): Promise<void> {
  await query(
    pool,
    'update certificate set not_after = now() + make_interval(secs => $2 * 3600.0) where id = $1',
    [id, hours],
  )
}

/** A plugin instance that names certificates. */
export function usedBy(pool: Pool, settings: Readonly<Record<string, unknown>>, enabled = true) {
  return query(
    pool,
    `insert into plugin_configuration (name, type, role, enabled, settings, secrets)
     values ('receiver', 'as2-receiver', 'source', $2, $1, '')`,
    [JSON.stringify(settings), enabled],
  )
}

export async function organizationProfile(
  pool: Pool,
  certificates: Readonly<Record<string, number | undefined>>,
): Promise<void> {
  await query(pool, `insert into organization (name) values ('acme')`)
  await insertProfiles(pool, 'as2_local_profile', `select id, 'ACME'`, 'from organization', {
    keys: 'local_organization_id, as2id',
    certificates,
  })
}

/** One of each of so many partners, all with the same certificates. */
export async function partnerProfiles(
  pool: Pool,
  certificates: Readonly<Record<string, number | undefined>>,
  names: readonly string[] = ['globex'],
): Promise<void> {
  await query(pool, 'insert into partner (name) select unnest($1::text[])', [names])
  const others = `'http://localhost', '', '', '', 'None', 'SHA256', 'PKCS1', 'None', 'PKCS1', 'None', false, 24, false, false,
    'text/plain'`
  await insertProfiles(pool, 'as2_remote_profile', `select id, upper(name), ${others}`, 'from partner', {
    keys: `business_partner_id, as2id, endpoint, subject, http_basic_username, secrets, compression, signing_algorithm,
      signature_scheme, encryption_algorithm, key_transport, receipt_mode, receipt_signed, receipt_timeout_hours,
      require_signed, require_encrypted, content_type`,
    certificates,
  })
}

interface Columns {
  readonly keys: string
  readonly certificates: Readonly<Record<string, number | undefined>>
}

async function insertProfiles(
  pool: Pool,
  table: string,
  select: string,
  from: string,
  { keys, certificates }: Columns,
): Promise<void> {
  const fields = Object.keys(certificates)
  const columns = [keys, ...fields].join(', ')
  const values = [select, ...fields.map((_, at) => `$${at + 1}::integer`)].join(', ')
  await query(pool, `insert into ${table} (${columns}) ${values} ${from}`, Object.values(certificates))
}

export async function keysOf(pool: Pool): Promise<string[]> {
  return (await alertsOf(pool)).map(({ dedupe_key }) => dedupe_key)
}
