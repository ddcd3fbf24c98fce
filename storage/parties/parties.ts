import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { refusingViolations } from '../records/constraint.ts'
import { refuseWhileUsed } from '../records/record-users.ts'
import { ORGANIZATION_SETTING } from '../plugins/rules.ts'
import { RecordEvents } from '../records/record-events.ts'
import { RecordTable } from '../records/record-table.ts'
import { anywhere } from '../records/search.ts'
import { OrganizationEntity, PartnerEntity, type Party, type PartyEntity, type PartyValues } from './party.ts'
import { refuseWhileUnderWay } from './under-way.ts'

export interface PartyFilter extends PageRequest {
  /** Text in name or display name. */
  readonly q: string | undefined
}

interface PartiesOptions {
  readonly orm: MikroORM
  readonly audit: AuditLog
}

interface PartyKind {
  readonly entity: PartyEntity
  /** The audit log's name of the kind, too. */
  readonly table: 'organization' | 'partner'
  /** As messages say it. */
  readonly noun: string
  /** Finds what names a party by its text; takes the name so many times. */
  readonly namedBy: { readonly query: string; readonly names: number }
  readonly profile: {
    readonly kind: string
    readonly table: string
    readonly link: string
    readonly path: string
  }
}

/** Takes the party's name four times. */
const ROUTES_OF_PARTY = `
  select 'route'::text as kind, coalesce(name, '#' || id) as name,
    array_remove(array[case when "from" = ?::text then 'from' end, case when "to" = ?::text then 'to' end], null) as fields,
    '/routes/' || id as link
  from route where "from" = ?::text or "to" = ?::text`

/** Takes the organization's name once. */
const INSTANCES_OF_ORGANIZATION = `
  select 'plugin-configuration', name, array['${ORGANIZATION_SETTING}'], '/plugins/configs/' || type || '/' || name
  from plugin_configuration where settings->>'${ORGANIZATION_SETTING}' = ?::text`

const ORGANIZATION: PartyKind = {
  entity: OrganizationEntity,
  table: 'organization',
  noun: 'Organization',
  namedBy: { query: `${ROUTES_OF_PARTY} union all ${INSTANCES_OF_ORGANIZATION}`, names: 5 },
  profile: {
    kind: 'as2-local-profile',
    table: 'as2_local_profile',
    link: 'local_organization_id',
    path: '/as2/local-profiles/',
  },
}

const PARTNER: PartyKind = {
  entity: PartnerEntity,
  table: 'partner',
  noun: 'Partner',
  namedBy: { query: ROUTES_OF_PARTY, names: 4 },
  profile: {
    kind: 'as2-remote-profile',
    table: 'as2_remote_profile',
    link: 'business_partner_id',
    path: '/as2/remote-profiles/',
  },
}

/** The organizations or the partners. Every method throws a WaybillError for what it refuses. */
export class Parties {
  readonly #orm: MikroORM
  readonly #kind: PartyKind
  readonly #table: RecordTable<Party>
  readonly #events: RecordEvents

  private constructor({ orm, audit }: PartiesOptions, kind: PartyKind) {
    this.#orm = orm
    this.#kind = kind
    this.#table = new RecordTable<Party>(orm, kind.entity)
    this.#events = new RecordEvents({ audit, kind: kind.table })
  }

  static organizations(options: PartiesOptions): Parties {
    return new Parties(options, ORGANIZATION)
  }

  static partners(options: PartiesOptions): Parties {
    return new Parties(options, PARTNER)
  }

  /** By name. */
  async list(filter: PartyFilter): Promise<Page<Party>> {
    const { q, limit, offset } = filter
    const where = { condition: 'name ilike $1 or display_name ilike $1', values: [anywhere(q ?? '')] }
    return this.#table.page({ ...(q === undefined ? {} : { where }), orderBy: 'name', limit, offset })
  }

  async get(id: number): Promise<Party> {
    return this.#found(await this.#table.get(id))
  }

  async create(values: PartyValues, caller: Caller): Promise<Party> {
    return this.#refusingTakenName(values.name, () =>
      this.#table.insert(values, this.#events.creation(caller, values.name, values)),
    )
  }

  async update(id: number, change: Change<PartyValues>, caller: Caller): Promise<Party> {
    return this.#orm.em.fork().transactional(async (em) => {
      const party = await this.#locked(em, id)
      const before = valuesOf(party)
      const next = change.applyTo(before)
      if (next.name !== party.name) await this.#refuseNameInUse(em, party)
      Object.assign(party, next)
      await this.#refusingTakenName(next.name, () => em.flush())
      await this.#events.updated({ em, caller }, party, this.#events.changes(before, next))
      return party
    })
  }

  async delete(id: number, caller: Caller): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      const party = await this.#locked(em, id)
      const { profile } = this.#kind
      const naming = this.#naming(party)
      await refuseWhileUsed(em, this.#inUse(party), {
        query: `${naming.query}
          union all
          select '${profile.kind}', ?::text, array['${profile.link}'], '${profile.path}' || ${profile.link}
          from ${profile.table} where ${profile.link} = ?::int`,
        values: [...naming.values, party.name, party.id],
      })
      em.remove(party)
      await this.#events.deleted({ em, caller }, party, valuesOf(party))
    })
  }

  /**
   * Routes, plugin instances and messages name parties by their text, so a name in use cannot change under them. What has
   * arrived keeps the name that it came under.
   */
  async #refuseNameInUse(em: EntityManager, party: Party): Promise<void> {
    await refuseWhileUsed(em, this.#inUse(party), this.#naming(party))
    await refuseWhileUnderWay(em, { kind: this.#kind.table, name: party.name })
  }

  #naming(party: Party) {
    const { query, names } = this.#kind.namedBy
    return { query, values: Array.from({ length: names }, () => party.name) }
  }

  #inUse(party: Party) {
    return { code: 'CONFLICT', subject: `${this.#kind.noun} ${party.name}` } as const
  }

  /** A route or configuration that is being saved holds a share of this lock, so none appears between check and delete. */
  async #locked(em: EntityManager, id: number): Promise<Party> {
    return this.#found(await em.findOne(this.#kind.entity, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE }))
  }

  #found(party: Party | null): Party {
    if (party === null) throw new WaybillError('NOT_FOUND', `${this.#kind.noun} not found`)
    return party
  }

  async #refusingTakenName<T>(name: string, write: () => Promise<T>): Promise<T> {
    const { noun, table } = this.#kind
    return refusingViolations(
      { [`${table}_name_key`]: () => new WaybillError('CONFLICT', `${noun} ${name} exists already`) },
      write,
    )
  }
}

function valuesOf({ name, display_name }: Party): PartyValues {
  return { name, display_name }
}
