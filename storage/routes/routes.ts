import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { PluginRole } from '../../runtime/module.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import { recordName, type Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { refusingViolations } from '../records/constraint.ts'
import { OrganizationEntity, PartnerEntity } from '../parties/party.ts'
import { PluginConfigurationEntity } from '../plugins/plugin-configuration.ts'
import { RecordEvents, type EventSubject } from '../records/record-events.ts'
import { RecordTable } from '../records/record-table.ts'
import { covers, RouteEntity, type Route, type RouteValues } from './route.ts'

/** The routes. Every method throws a WaybillError for what it refuses. */
export class Routes {
  readonly #orm: MikroORM
  readonly #table: RecordTable<Route>
  readonly #events: RecordEvents

  constructor({ orm, audit }: { readonly orm: MikroORM; readonly audit: AuditLog }) {
    this.#orm = orm
    this.#table = new RecordTable<Route>(orm, RouteEntity)
    this.#events = new RecordEvents({ audit, kind: 'route' })
  }

  /** Oldest first. */
  async list({ limit, offset }: PageRequest): Promise<Page<Route>> {
    return this.#table.page({ orderBy: 'id', limit, offset })
  }

  async get(id: number): Promise<Route> {
    return found(await this.#table.get(id))
  }

  async create(values: RouteValues, caller: Caller): Promise<Route> {
    return this.#orm.em.fork().transactional(async (em) => {
      await accept(em, values)
      const route = em.create(RouteEntity, values)
      await save(em, values)
      await this.#events.created({ em, caller }, subjectOf(route), values)
      return route
    })
  }

  async update(id: number, change: Change<RouteValues>, caller: Caller): Promise<Route> {
    return this.#orm.em.fork().transactional(async (em) => {
      const route = found(await em.findOne(RouteEntity, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE }))
      const stored = valuesOf(route)
      const values = await checkedWithReferences(
        () => change.applyTo(stored),
        () => refusalsOfReferences(em, { ...stored, ...change.unchecked }),
      )
      await accept(em, values, route)
      Object.assign(route, values)
      await save(em, values)
      await this.#events.updated({ em, caller }, subjectOf(route), this.#events.changes(stored, values))
      return route
    })
  }

  /** What an unchecked body refers to and is not there, by property. */
  async refusalsOfReferences(body: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
    return this.#orm.em.fork().transactional((em) => refusalsOfReferences(em, body))
  }

  async delete(id: number, caller: Caller): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      const route = found(await em.findOne(RouteEntity, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE }))
      em.remove(route)
      await this.#events.deleted({ em, caller }, subjectOf(route), valuesOf(route))
    })
  }
}

function valuesOf({ name, source_plugin, from, to, target_plugin }: Route): RouteValues {
  return { name: name ?? null, source_plugin, from, to, target_plugin }
}

/** A route without a name is known by whom it goes between. */
function subjectOf({ id, name, from, to }: Route): EventSubject {
  return { id, name: name ?? `${from} → ${to}` }
}

/** One route is accepted at a time: two that cover each other must not pass side by side. Any number that is ours. */
const ACCEPT_LOCK = 7_721_940_311

/**
 * Refuses in this order: what the route refers to, a route that covers it, a name that is taken. A stored route may be
 * covered by a wider one that came later; it keeps its way until it is to go another.
 */
async function accept(em: EntityManager, values: RouteValues, stored?: Route): Promise<void> {
  await em.execute('select pg_advisory_xact_lock(?)', [ACCEPT_LOCK])
  const details = await refusalsOfReferences(em, values)
  if (Object.keys(details).length > 0) throw validationFailure(details)

  const { name } = values
  const another = stored === undefined ? {} : { id: { $ne: stored.id } }
  if (stored === undefined || !goesTheSameWay(stored, values)) await refuseCovered(em, values, another)
  if (name === null) return
  const taken = await em.count(RouteEntity, { name, ...another })
  if (taken > 0) throw nameTaken(name)
}

function goesTheSameWay(stored: Route, values: RouteValues): boolean {
  return (['source_plugin', 'from', 'to', 'target_plugin'] as const).every(
    (property) => stored[property] === values[property],
  )
}

async function refuseCovered(em: EntityManager, values: RouteValues, another: object): Promise<void> {
  const { source_plugin, target_plugin } = values
  const others = await em.find(RouteEntity, { source_plugin, target_plugin, ...another })
  const covering = others.find((other) => covers(other, values))
  if (covering === undefined) return
  throw validationFailure({ to: `the route ${covering.name ?? `#${covering.id}`} covers this one already` })
}

/** The values may be unchecked; those that can be no name are passed over. */
async function refusalsOfReferences(em: EntityManager, values: Readonly<Record<string, unknown>>) {
  const { source_plugin, from, to, target_plugin } = values
  return {
    ...(await refusalOfPlugin(em, 'source_plugin', source_plugin, 'source')),
    ...(await refusalOfParty(em, 'from', from)),
    ...(await refusalOfParty(em, 'to', to)),
    ...(await refusalOfPlugin(em, 'target_plugin', target_plugin, 'target')),
  }
}

function isName(value: unknown): value is string {
  return recordName.safeParse(value).success
}

/** The shared lock keeps the instance until the route is committed. */
async function refusalOfPlugin(em: EntityManager, property: string, name: unknown, role: PluginRole) {
  if (!isName(name)) return {}
  const instance = await em.findOne(
    PluginConfigurationEntity,
    { name },
    { lockMode: LockMode.PESSIMISTIC_READ },
  )
  if (instance === null) return { [property]: `there is no plugin instance ${name}` }
  return instance.role === role ? {} : { [property]: `the plugin instance ${name} is no ${role}` }
}

async function refusalOfParty(em: EntityManager, property: string, name: unknown) {
  // ANY_PARTY is no name.
  if (!isName(name)) return {}
  const lock = { lockMode: LockMode.PESSIMISTIC_READ } as const
  const organization = await em.findOne(OrganizationEntity, { name }, lock)
  const partner = await em.findOne(PartnerEntity, { name }, lock)
  return organization === null && partner === null ? { [property]: `there is no party ${name}` } : {}
}

async function save(em: EntityManager, values: RouteValues): Promise<void> {
  await refusingViolations({ route_name_key: () => nameTaken(values.name ?? '') }, () => em.flush())
}

function nameTaken(name: string): WaybillError {
  return new WaybillError('CONFLICT', `A route named ${name} exists already`)
}

function found(route: Route | null): Route {
  if (route === null) throw new WaybillError('NOT_FOUND', 'Route not found')
  return route
}
