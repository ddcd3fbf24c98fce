import type { Pool } from 'pg'
import { query } from '../postgres/pool.ts'

/** The statements that every authenticated request may need, each one round trip and one snapshot. */

/** What is stored of an API token, as it stands at the revision. */
export interface FoundToken {
  readonly revision: number
  /** Null for an unknown token, and so are the others then. */
  readonly token_id: number | null
  readonly token_sha256: Buffer | null
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
  readonly account_id: number | null
  readonly account: string | null
  readonly account_enabled: boolean | null
}

/** Who an issuer and a subject stand for, as it stands at the revision. */
export interface FoundIdentity {
  readonly revision: number
  /** Null when no enabled provider has the issuer, and so are the other properties of it then. */
  readonly provider: string | null
  readonly provider_id: number | null
  readonly provider_updated_at: Date | null
  readonly client_id: string | null
  readonly api_scopes: string | null
  readonly api_audience: string | null
  readonly accept_tokens_without_audience: boolean | null
  /** The federated account of the identity. */
  readonly account_id: number | null
  readonly account: string | null
  readonly account_enabled: boolean | null
  readonly user_id: number | null
  readonly user_enabled: boolean | null
}

export async function readRevision(pool: Pool): Promise<number> {
  const rows = await query<{ revision: number }>(pool, REVISION, [], 'identity revision')
  return only(rows).revision
}

export async function findToken(pool: Pool, publicId: string): Promise<FoundToken> {
  return only(await query<FoundToken>(pool, TOKEN, [publicId], 'identity token'))
}

export async function findIdentity(pool: Pool, issuer: string, subject: string): Promise<FoundIdentity> {
  return only(await query<FoundIdentity>(pool, IDENTITY, [issuer, subject], 'identity of issuer'))
}

const REVISION = 'select revision from identity_revision'

const TOKEN = `
  select r.revision, t.id as token_id, t.token_sha256, t.expires_at, t.revoked_at,
    a.id as account_id, a.name as account, a.enabled as account_enabled
  from identity_revision r
  left join api_token t on t.public_id = $1
  left join service_account a on a.id = t.service_account_id and a.kind = 'local'`

const IDENTITY = `
  select r.revision, p.name as provider, p.id as provider_id, p.updated_at as provider_updated_at, p.client_id,
    p.api_scopes, p.api_audience, p.accept_tokens_without_audience,
    a.id as account_id, a.name as account, a.enabled as account_enabled, u.id as user_id, u.enabled as user_enabled
  from identity_revision r
  left join oidc_provider p on p.issuer_url = $1 and p.enabled
  left join service_account a on a.oidc_issuer = $1 and a.oidc_subject = $2 and a.kind = 'federated'
  left join user_account u on u.oidc_issuer = $1 and u.oidc_subject = $2 and u.oidc_subject <> ''`

function only<T>(rows: readonly T[]): T {
  const [row] = rows
  if (row === undefined) throw new Error('The record of the identity revision is missing')
  return row
}
