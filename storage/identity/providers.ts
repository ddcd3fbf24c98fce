import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { refusingViolations } from '../records/constraint.ts'
import { RecordEvents } from '../records/record-events.ts'
import { refusalsOfKeptSecrets } from '../secrets/kept-secrets.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import { changeIdentity } from './change.ts'
import { OidcProviderEntity, type OidcProvider, type OidcProviderValues } from './provider.ts'
import { clientSecretContext } from './secrets.ts'

export interface OidcProvidersOptions {
  readonly orm: MikroORM
  readonly box: SecretBox
  readonly audit: AuditLog
}

/** The identity providers. Every method throws a WaybillError for what it refuses. */
export class OidcProviders {
  readonly #orm: MikroORM
  readonly #box: SecretBox
  readonly #events: RecordEvents

  constructor({ orm, box, audit }: OidcProvidersOptions) {
    this.#orm = orm
    this.#box = box
    this.#events = new RecordEvents({ audit, kind: 'oidc-provider', secret: ['client_secret'] })
  }

  /** By name. */
  async list(page: PageRequest): Promise<Page<OidcProvider>> {
    const { limit, offset } = page
    const [items, total] = await this.#orm.em
      .fork()
      .findAndCount(OidcProviderEntity, {}, { limit, offset, orderBy: { name: 'asc' } })
    return { items, total }
  }

  async get(id: number): Promise<OidcProvider> {
    return found(await this.#orm.em.fork().findOne(OidcProviderEntity, { id }))
  }

  async create(values: OidcProviderValues, caller: Caller): Promise<OidcProvider> {
    return changeIdentity(this.#orm, caller, async (making) => {
      const { em } = making
      const provider = em.create(OidcProviderEntity, this.#sealed(values))
      await save(em, values)
      await this.#events.created(making, provider, values)
      return provider
    })
  }

  async update(id: number, change: Change<OidcProviderValues>, caller: Caller): Promise<OidcProvider> {
    return changeIdentity(this.#orm, caller, async (making) => {
      const { em } = making
      const provider = found(await em.findOne(OidcProviderEntity, { id }))
      const stored = this.#opened(provider)
      const kept = { url: 'issuer_url', secrets: ['client_secret'] } as const
      const refused = refusalsOfKeptSecrets(change, stored, kept)
      const next = await checkedWithReferences(
        () => change.applyTo(stored),
        async () => refused,
      )
      if (Object.keys(refused).length > 0) throw validationFailure(refused)
      const changes = this.#events.changes(stored, next)
      // Sealed anew, a secret that stays would look like another one.
      if (changes.length === 0) return provider
      Object.assign(provider, this.#sealed(next))
      await save(em, next)
      await this.#events.updated(making, provider, changes)
      return provider
    })
  }

  /** Accounts and users of the provider stay; their tokens are accepted no longer. */
  async delete(id: number, caller: Caller): Promise<void> {
    await changeIdentity(this.#orm, caller, async (making) => {
      const { em } = making
      const provider = found(await em.findOne(OidcProviderEntity, { id }))
      em.remove(provider)
      await this.#events.deleted(making, { id, name: provider.name }, { ...provider })
    })
  }

  #sealed(values: OidcProviderValues) {
    const { client_secret, ...open } = values
    const context = clientSecretContext(values.issuer_url)
    return { ...open, client_secret: client_secret === '' ? null : this.#box.seal(client_secret, context) }
  }

  #opened(provider: OidcProvider): OidcProviderValues {
    const { id: _id, created_at: _created, updated_at: _updated, client_secret, ...open } = provider
    const context = clientSecretContext(provider.issuer_url)
    return { ...open, client_secret: client_secret == null ? '' : this.#box.openText(client_secret, context) }
  }
}

async function save(em: EntityManager, { name, issuer_url }: OidcProviderValues): Promise<void> {
  await refusingViolations(
    {
      oidc_provider_name_key: () => conflict(`An identity provider ${name} exists already`),
      oidc_provider_issuer_url_key: () =>
        conflict(`An identity provider with the issuer ${issuer_url} exists already`),
    },
    () => em.flush(),
  )
}

function conflict(message: string): WaybillError {
  return new WaybillError('CONFLICT', message)
}

function found(provider: OidcProvider | null): OidcProvider {
  if (provider === null) throw new WaybillError('NOT_FOUND', 'Identity provider not found')
  return provider
}
