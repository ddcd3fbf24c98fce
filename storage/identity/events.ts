import type { AuditLog } from '../audit/audit-log.ts'
import { RecordEvents, type RecordChange } from '../records/record-events.ts'
import type { ApiToken } from './api-token.ts'
import type { ServiceAccount, ServiceAccountValues } from './service-account.ts'
import type { User } from './user.ts'

/** How the audit log tells of accounts, their tokens and users. */

export function accountEvents(audit: AuditLog): RecordEvents {
  return new RecordEvents({ audit, kind: 'service-account' })
}

/** An account's own properties. */
export function accountValues(account: ServiceAccount): ServiceAccountValues {
  const { name, description, kind, enabled, oidc_issuer, oidc_subject } = account
  return { name, description, kind, enabled, oidc_issuer, oidc_subject }
}

export function userEvents(audit: AuditLog): RecordEvents {
  return new RecordEvents({ audit, kind: 'user', secret: ['password'] })
}

export function userValues({ name, enabled, oidc_issuer, oidc_subject, password }: User) {
  return { name, enabled, oidc_issuer, oidc_subject, password: password ?? null }
}

/** API tokens are made and revoked, and known by their labels. */
export class TokenEvents {
  readonly #events: RecordEvents

  constructor(audit: AuditLog) {
    this.#events = new RecordEvents({ audit, kind: 'api-token' })
  }

  async made(change: RecordChange, token: ApiToken): Promise<void> {
    const { public_id, service_account, label, expires_at } = token
    const values = { public_id, service_account, label, expires_at: expires_at.toISOString() }
    await this.#events.record(change, 'made', named(token), this.#events.changes(null, values))
  }

  /** Of a token that has just been revoked. */
  async revoked(change: RecordChange, token: ApiToken): Promise<void> {
    const next = { revoked_at: token.revoked_at?.toISOString() ?? null }
    const changes = this.#events.changes({ revoked_at: null }, next)
    await this.#events.record(change, 'revoked', named(token), changes)
  }
}

function named({ id, label }: ApiToken) {
  return { id, name: label }
}
