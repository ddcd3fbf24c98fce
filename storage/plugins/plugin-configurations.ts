import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { PluginType } from '../../runtime/module.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import { OrganizationEntity } from '../parties/party.ts'
import { refusingViolations } from '../records/constraint.ts'
import { refuseSecretsOfOtherUrl } from '../secrets/kept-secrets.ts'
import { refusalsOfCertificates } from '../profiles/certificate-references.ts'
import { refuseWhileUsed } from '../records/record-users.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import { PluginConfigurationEntity, type StoredPluginConfiguration } from './plugin-configuration.ts'
import {
  certificateSettings,
  ORGANIZATION_SETTING,
  organizationOf,
  type PluginTypes,
  type PluginValues,
} from './rules.ts'
import { pluginContext } from './secrets.ts'

/** A configuration as answers show it: without its secrets. */
export interface PluginConfiguration {
  readonly type: string
  readonly name: string
  readonly enabled: boolean
  readonly settings: Readonly<Record<string, unknown>>
  readonly created_at: Date
  readonly updated_at: Date
}

/** What an instance is started with: its settings with the secrets opened. */
export interface InstanceSettings {
  readonly type: string
  readonly name: string
  readonly settings: Readonly<Record<string, unknown>>
}

export interface PluginConfigurationsOptions {
  readonly orm: MikroORM
  readonly box: SecretBox
  readonly types: PluginTypes
}

/** The configurations of plugin instances. Every method throws a WaybillError for what it refuses. */
export class PluginConfigurations {
  readonly #orm: MikroORM
  readonly #box: SecretBox
  readonly #types: PluginTypes

  constructor(options: PluginConfigurationsOptions) {
    this.#orm = options.orm
    this.#box = options.box
    this.#types = options.types
  }

  async get(type: string, name: string): Promise<PluginConfiguration> {
    this.#types.get(type)
    return shown(found(await this.#orm.em.fork().findOne(PluginConfigurationEntity, { type, name })))
  }

  /** `values` are checked by the rules of the type already. */
  async create(type: string, values: PluginValues): Promise<PluginConfiguration> {
    const kind = this.#types.get(type)
    const { role } = kind
    return this.#orm.em.fork().transactional(async (em) => {
      await refuseTakenName(em, type, values.name)
      await accept(em, kind, values)
      const stored = em.create(PluginConfigurationEntity, { type, role, ...this.#sealed(type, values) })
      await refusingViolations({ plugin_configuration_pkey: () => nameTaken(values.name) }, () => em.flush())
      return shown(stored)
    })
  }

  async update(
    type: string,
    name: string,
    change: Change<Record<string, unknown>>,
  ): Promise<PluginConfiguration> {
    const kind = this.#types.get(type)
    const { secrets } = kind
    return this.#orm.em.fork().transactional(async (em) => {
      const stored = await locked(em, type, name)
      const before = this.#opened(stored)
      // The rules of the type have checked it, and all of them have a name and enabled.
      const next = (await checkedWithReferences(
        () => change.applyTo(before),
        () => refusalsOfReferences(em, kind, { ...before, ...change.unchecked }),
      )) as PluginValues
      const others = secrets.filter((secret) => secret !== 'url')
      refuseSecretsOfOtherUrl<Record<string, unknown>>(change, before, next, { url: 'url', secrets: others })
      await accept(em, kind, next)
      Object.assign(stored, this.#sealed(type, next))
      await em.flush()
      return shown(stored)
    })
  }

  /** What an unchecked body refers to and is not there, by property. */
  async refusalsOfReferences(
    type: string,
    body: Readonly<Record<string, unknown>>,
  ): Promise<Record<string, string>> {
    const kind = this.#types.get(type)
    return this.#orm.em.fork().transactional((em) => refusalsOfReferences(em, kind, body))
  }

  async delete(type: string, name: string): Promise<void> {
    this.#types.get(type)
    await this.#orm.em.fork().transactional(async (em) => {
      const stored = await locked(em, type, name)
      await refuseWhileUsed(
        em,
        { code: 'CONFLICT', subject: `The plugin instance ${name}` },
        { query: ROUTES_OF_INSTANCE, values: [name] },
      )
      em.remove(stored)
    })
  }

  /** Every enabled instance of an installed type, by name. */
  async enabled(): Promise<readonly InstanceSettings[]> {
    const types = this.#types.all.map(({ type }) => type)
    const stored = await this.#orm.em
      .fork()
      .find(PluginConfigurationEntity, { enabled: true, type: { $in: types } }, { orderBy: { name: 'asc' } })
    return stored.map((each) => this.#instance(each))
  }

  /** One instance as it would be started, or null when there is none or it is disabled. */
  async instance(type: string, name: string): Promise<InstanceSettings | null> {
    const stored = await this.#orm.em.fork().findOne(PluginConfigurationEntity, { type, name, enabled: true })
    return stored === null ? null : this.#instance(stored)
  }

  #instance(stored: StoredPluginConfiguration): InstanceSettings {
    const { name, enabled: _, ...settings } = this.#opened(stored)
    return { type: stored.type, name, settings }
  }

  #sealed(type: string, values: PluginValues) {
    const { name, enabled, ...settings } = values
    const { open, secrets } = apart(this.#types.get(type), settings)
    return {
      name,
      enabled,
      settings: open,
      secrets: this.#box.seal(JSON.stringify(secrets), pluginContext(name)),
    }
  }

  /** The stored values with the secrets; a setting that is newer than the record has its default. */
  #opened(stored: StoredPluginConfiguration): PluginValues {
    const { name, enabled } = stored
    const secrets = JSON.parse(this.#box.openText(stored.secrets, pluginContext(name))) as Record<
      string,
      unknown
    >
    const values = { ...stored.settings, ...secrets, name, enabled }
    const filled = this.#types.rulesOf(stored.type).schema.safeParse(values)
    return filled.success ? { ...filled.data, name, enabled } : values
  }
}

function apart(type: PluginType, settings: Readonly<Record<string, unknown>>) {
  const entries = Object.entries(settings)
  return {
    open: Object.fromEntries(entries.filter(([name]) => !type.secrets.includes(name))),
    secrets: Object.fromEntries(entries.filter(([name]) => type.secrets.includes(name))),
  }
}

async function accept(em: EntityManager, type: PluginType, values: PluginValues): Promise<void> {
  const details = await refusalsOfReferences(em, type, values)
  if (Object.keys(details).length > 0) throw validationFailure(details)
}

/** The shared locks keep what is named until the configuration is committed. */
async function refusalsOfReferences(
  em: EntityManager,
  type: PluginType,
  values: Readonly<Record<string, unknown>>,
): Promise<Record<string, string>> {
  const references = certificateSettings(values)
  const details = await refusalsOfCertificates(em, references, Object.keys(references))
  const name = organizationOf(type, values)
  const lock = { lockMode: LockMode.PESSIMISTIC_READ } as const
  if (name !== null && (await em.findOne(OrganizationEntity, { name }, lock)) === null)
    details[ORGANIZATION_SETTING] = `there is no organization ${name}`
  return details
}

/** Another instance of the type is a conflict; one of another type is told by naming that type. */
async function refuseTakenName(em: EntityManager, type: string, name: string): Promise<void> {
  const holder = await em.findOne(PluginConfigurationEntity, { name })
  if (holder === null) return
  if (holder.type === type) throw nameTaken(name)
  throw validationFailure({ name: `is the name of an instance of the type ${holder.type}` })
}

function nameTaken(name: string): WaybillError {
  return new WaybillError('CONFLICT', `A plugin instance named ${name} exists already`)
}

/** A route that is being saved holds a share of this lock. */
async function locked(em: EntityManager, type: string, name: string): Promise<StoredPluginConfiguration> {
  const lock = { lockMode: LockMode.PESSIMISTIC_WRITE } as const
  return found(await em.findOne(PluginConfigurationEntity, { type, name }, lock))
}

function found(stored: StoredPluginConfiguration | null): StoredPluginConfiguration {
  if (stored === null) throw new WaybillError('NOT_FOUND', 'Plugin configuration not found')
  return stored
}

function shown(stored: StoredPluginConfiguration): PluginConfiguration {
  const { type, name, enabled, settings, created_at, updated_at } = stored
  return { type, name, enabled, settings, created_at, updated_at }
}

/** Takes the instance's name once. */
const ROUTES_OF_INSTANCE = `
  with wanted as (select ?::text as name)
  select 'route'::text as kind, coalesce(r.name, '#' || r.id) as name,
    array_remove(array[
      case when r.source_plugin = w.name then 'source_plugin' end,
      case when r.target_plugin = w.name then 'target_plugin' end], null) as fields,
    '/routes/' || r.id as link
  from wanted w join route r on w.name in (r.source_plugin, r.target_plugin)`
