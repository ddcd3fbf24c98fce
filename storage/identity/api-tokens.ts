import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { RecordEvents } from '../records/record-events.ts'
import { ApiTokenEntity, type ApiToken, type ApiTokenValues } from './api-token.ts'
import { changeIdentity } from './change.ts'
import { accountEvents, accountValues, TokenEvents } from './events.ts'
import type { LastUse } from './last-use.ts'
import { ServiceAccountEntity, type ServiceAccount } from './service-account.ts'
import { makeToken } from './token-text.ts'

export interface ApiTokensOptions {
  readonly orm: MikroORM
  readonly clock: Clock
  /** Left out where nothing is authenticated. */
  readonly lastUse?: LastUse
  readonly audit: AuditLog
}

/** A token just made, with the text that is told this once. */
export interface MadeToken {
  readonly token: ApiToken
  readonly text: string
}

const DAY_MS = 86_400_000

/** The API tokens. Every method throws a WaybillError for what it refuses. */
export class ApiTokens {
  readonly #orm: MikroORM
  readonly #clock: Clock
  readonly #lastUse: LastUse | undefined
  readonly #events: TokenEvents
  readonly #accountEvents: RecordEvents

  constructor(options: ApiTokensOptions) {
    this.#orm = options.orm
    this.#clock = options.clock
    this.#lastUse = options.lastUse
    this.#events = new TokenEvents(options.audit)
    this.#accountEvents = accountEvents(options.audit)
  }

  /** Newest first. */
  async list(page: PageRequest): Promise<Page<ApiToken>> {
    const { limit, offset } = page
    const [items, total] = await this.#orm.em
      .fork()
      .findAndCount(ApiTokenEntity, {}, { limit, offset, orderBy: { id: 'desc' } })
    return { items: items.map((token) => this.#used(token)), total }
  }

  async create(values: ApiTokenValues, caller: Caller): Promise<MadeToken> {
    return changeIdentity(this.#orm, caller, async (change) => {
      const account = await change.em.findOne(ServiceAccountEntity, { name: values.service_account })
      const made = await this.#make(change.em, account, values)
      await this.#events.made(change, made.token)
      return made
    })
  }

  /** The same, with a local account made first when there is none of the name. */
  async createWithAccount(values: ApiTokenValues, caller: Caller): Promise<MadeToken> {
    return changeIdentity(this.#orm, caller, async (change) => {
      const { em } = change
      const name = values.service_account
      const known = await em.findOne(ServiceAccountEntity, { name })
      const account = known ?? em.create(ServiceAccountEntity, newAccount(name))
      await em.flush()
      const made = await this.#make(em, account, values)
      if (known === null) await this.#accountEvents.created(change, account, accountValues(account))
      await this.#events.made(change, made.token)
      return made
    })
  }

  /** A token that is revoked already stays as it is. */
  async revoke(id: number, caller: Caller): Promise<void> {
    await changeIdentity(this.#orm, caller, async (change) => {
      const token = await change.em.findOne(ApiTokenEntity, { id })
      if (token === null) throw new WaybillError('NOT_FOUND', 'API token not found')
      if (token.revoked_at != null) return
      token.revoked_at = this.#clock.now()
      await this.#events.revoked(change, token)
    })
  }

  /** Why no token can be made for the account of this name, by property. */
  async refusalsOfReferences(body: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
    const { service_account: name } = body
    if (typeof name !== 'string' || name === '') return {}
    const refusal = refusalOf(await this.#orm.em.fork().findOne(ServiceAccountEntity, { name }), name)
    return refusal === null ? {} : { service_account: refusal }
  }

  async #make(em: EntityManager, account: ServiceAccount | null, values: ApiTokenValues): Promise<MadeToken> {
    const refusal = refusalOf(account, values.service_account)
    if (account === null || refusal !== null) throw validationFailure({ service_account: refusal ?? '' })
    const { text, publicId, sha256 } = makeToken()
    const now = this.#clock.now()
    const token = em.create(ApiTokenEntity, {
      public_id: publicId,
      token_sha256: sha256,
      service_account_id: account.id,
      service_account: account.name,
      label: values.label,
      created_at: now,
      expires_at: new Date(now.getTime() + values.expires_in_days * DAY_MS),
      last_used_at: null,
      revoked_at: null,
    })
    await em.flush()
    return { token, text }
  }

  /** With the last use that this process knows of and has not stored yet. */
  #used(token: ApiToken): ApiToken {
    const stored = token.last_used_at ?? null
    return { ...token, last_used_at: this.#lastUse?.ofToken(token.id, stored) ?? stored }
  }
}

function newAccount(name: string) {
  return {
    name,
    description: '',
    kind: 'local',
    enabled: true,
    oidc_issuer: '',
    oidc_subject: '',
    last_used_at: null,
  } as const
}

function refusalOf(account: ServiceAccount | null, name: string): string | null {
  if (account === null) return `there is no service account ${name}`
  if (account.kind !== 'local')
    return `${name} is a federated account: its identity provider issues its tokens`
  return account.enabled ? null : `the service account ${name} is disabled`
}
