import type { MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import { query } from '../postgres/pool.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { ApiTokens } from './api-tokens.ts'
import { LastUse } from './last-use.ts'
import { OidcProviders } from './providers.ts'
import { ServiceAccounts } from './service-accounts.ts'
import { Users } from './users.ts'

/** The records of who may come in. */
export interface IdentityRecords {
  readonly oidcProviders: OidcProviders
  readonly serviceAccounts: ServiceAccounts
  readonly apiTokens: ApiTokens
  readonly users: Users
  readonly lastUse: LastUse
}

export interface IdentityOptions {
  readonly orm: MikroORM
  readonly pool: Pool
  readonly box: SecretBox
  readonly clock: Clock
  readonly log: Log
  readonly audit: AuditLog
}

/** Whoever opens them stops `lastUse` at the end. */
export function openIdentity({ orm, pool, box, clock, log, audit }: IdentityOptions): IdentityRecords {
  const lastUse = new LastUse({ pool, clock, log })
  return {
    oidcProviders: new OidcProviders({ orm, box, audit }),
    serviceAccounts: new ServiceAccounts({ orm, clock, lastUse, audit }),
    apiTokens: new ApiTokens({ orm, clock, lastUse, audit }),
    users: new Users({ orm, audit }),
    lastUse,
  }
}

/** Whether there is a user or a service account: otherwise nobody can come in. */
export async function isAnybodyKnown(pool: Pool): Promise<boolean> {
  const [found] = await query<{ known: boolean }>(
    pool,
    'select exists (select from user_account) or exists (select from service_account) as known',
  )
  return found?.known === true
}
