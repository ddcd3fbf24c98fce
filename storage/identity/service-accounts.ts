import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { refusingViolations } from '../records/constraint.ts'
import type { RecordEvents } from '../records/record-events.ts'
import { ApiTokenEntity } from './api-token.ts'
import { changeIdentity } from './change.ts'
import { accountEvents, accountValues, TokenEvents } from './events.ts'
import { refusalOfIssuer, refuseTakenIdentity } from './identities.ts'
import type { LastUse } from './last-use.ts'
import { ServiceAccountEntity, type ServiceAccount, type ServiceAccountValues } from './service-account.ts'

export interface ServiceAccountsOptions {
  readonly orm: MikroORM
  readonly clock: Clock
  readonly lastUse: LastUse
  readonly audit: AuditLog
}

/** The service accounts. Every method throws a WaybillError for what it refuses. */
export class ServiceAccounts {
  readonly #orm: MikroORM
  readonly #clock: Clock
  readonly #lastUse: LastUse
  readonly #events: RecordEvents
  readonly #tokenEvents: TokenEvents

  constructor(options: ServiceAccountsOptions) {
    this.#orm = options.orm
    this.#clock = options.clock
    this.#lastUse = options.lastUse
    this.#events = accountEvents(options.audit)
    this.#tokenEvents = new TokenEvents(options.audit)
  }

  /** By name. */
  async list(page: PageRequest): Promise<Page<ServiceAccount>> {
    const { limit, offset } = page
    const [items, total] = await this.#orm.em
      .fork()
      .findAndCount(ServiceAccountEntity, {}, { limit, offset, orderBy: { name: 'asc' } })
    return { items: items.map((account) => this.#used(account)), total }
  }

  async get(id: number): Promise<ServiceAccount> {
    return this.#used(found(await this.#orm.em.fork().findOne(ServiceAccountEntity, { id })))
  }

  async create(values: ServiceAccountValues, caller: Caller): Promise<ServiceAccount> {
    return changeIdentity(this.#orm, caller, async (making) => {
      const { em } = making
      const refused = await refusalsOf(em, values)
      if (Object.keys(refused).length > 0) throw validationFailure(refused)
      await refuseTakenIdentity(em, values, null)
      const account = em.create(ServiceAccountEntity, { ...values, last_used_at: null })
      await save(em, values)
      await this.#events.created(making, account, accountValues(account))
      return account
    })
  }

  async update(id: number, change: Change<ServiceAccountValues>, caller: Caller): Promise<ServiceAccount> {
    return changeIdentity(this.#orm, caller, async (making) => {
      const { em } = making
      const account = found(await em.findOne(ServiceAccountEntity, { id }))
      const stored = accountValues(account)
      refuseChanged(stored, change.unchecked, ['name', 'kind'])
      const changed = async (values: Readonly<Record<string, unknown>>) =>
        values['oidc_issuer'] === stored.oidc_issuer ? {} : refusalsOf(em, values)
      const next = await checkedWithReferences(
        () => change.applyTo(stored),
        () => changed({ ...stored, ...change.unchecked }),
      )
      // The provider of an account may have been deleted since: only another issuer must be there.
      const refused = await changed(next)
      if (Object.keys(refused).length > 0) throw validationFailure(refused)
      await refuseTakenIdentity(em, next, { account: id })
      Object.assign(account, next)
      await save(em, next)
      await this.#events.updated(making, account, this.#events.changes(stored, next))
      return this.#used(account)
    })
  }

  /** Revokes the account's tokens and removes it. The tokens stay listed, as revoked. */
  async delete(id: number, caller: Caller): Promise<void> {
    await changeIdentity(this.#orm, caller, async (making) => {
      const { em } = making
      const account = found(await em.findOne(ServiceAccountEntity, { id }))
      const active = { service_account_id: id, revoked_at: null }
      const tokens = await em.find(ApiTokenEntity, active, { orderBy: { id: 'asc' } })
      for (const token of tokens) token.revoked_at = this.#clock.now()
      await em.flush()
      em.remove(account)
      for (const token of tokens) await this.#tokenEvents.revoked(making, token)
      await this.#events.deleted(making, { id, name: account.name }, accountValues(account))
    })
  }

  /** What an unchecked body refers to and is not there, by property. */
  async refusalsOfReferences(body: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
    return refusalsOf(this.#orm.em.fork(), body)
  }

  /** With the last use that this process knows of and has not stored yet. */
  #used(account: ServiceAccount): ServiceAccount {
    return { ...account, last_used_at: this.#lastUse.ofAccount(account.id, account.last_used_at ?? null) }
  }
}

async function refusalsOf(
  em: EntityManager,
  values: Readonly<Record<string, unknown>>,
): Promise<Record<string, string>> {
  const { kind, oidc_issuer } = values
  if (kind !== 'federated' || typeof oidc_issuer !== 'string' || oidc_issuer === '') return {}
  const refusal = await refusalOfIssuer(em, oidc_issuer)
  return refusal === null ? {} : { oidc_issuer: refusal }
}

/** Told before anything that would follow from the change. */
function refuseChanged<T extends object>(
  stored: T,
  unchecked: Readonly<Record<string, unknown>>,
  properties: readonly (keyof T & string)[],
): void {
  const changed = properties.filter(
    (property) => property in unchecked && unchecked[property] !== stored[property],
  )
  if (changed.length === 0) return
  throw validationFailure(Object.fromEntries(changed.map((property) => [property, 'cannot change'])))
}

async function save(em: EntityManager, { name }: ServiceAccountValues): Promise<void> {
  await refusingViolations(
    {
      service_account_name_key: () =>
        new WaybillError('CONFLICT', `A service account ${name} exists already`),
    },
    () => em.flush(),
  )
}

function found(account: ServiceAccount | null): ServiceAccount {
  if (account === null) throw new WaybillError('NOT_FOUND', 'Service account not found')
  return account
}
