import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { PluginType } from '../../runtime/module.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { instanceId } from '../audit/kinds.ts'
import { OrganizationEntity } from '../parties/party.ts'
import { refusingViolations } from '../records/constraint.ts'
import { refusalsOfKeptSecrets } from '../secrets/kept-secrets.ts'
import { refusalsOfCertificates } from '../profiles/certificate-references.ts'
import { RecordEvents, type EventSubject } from '../records/record-events.ts'
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
  /** Another one whenever it was disabled, or deleted and saved anew. */
  readonly generation: string
  readonly settings: Readonly<Record<string, unknown>>
}

export interface PluginConfigurationsOptions {
  readonly orm: MikroORM
  readonly box: SecretBox
  readonly types: PluginTypes
  readonly audit: AuditLog
}

/** The configurations of plugin instances. Every method throws a WaybillError for what it refuses. */
export class PluginConfigurations {
  readonly #orm: MikroORM
  readonly #box: SecretBox
  readonly #types: PluginTypes
  readonly #audit: AuditLog

  constructor(options: PluginConfigurationsOptions) {
    this.#orm = options.orm
    this.#box = options.box
    this.#types = options.types
    this.#audit = options.audit
  }

  async get(type: string, name: string): Promise<PluginConfiguration> {
    this.#types.get(type)
    return shown(found(await this.#orm.em.fork().findOne(PluginConfigurationEntity, { type, name })))
  }

  /** `values` are checked by the rules of the type already. */
  async create(type: string, values: PluginValues, caller: Caller): Promise<PluginConfiguration> {
    try {
      return await this.#insert(this.#types.get(type), values, caller)
    } catch (thrown) {
      if (!(thrown instanceof WaybillError) || thrown.code !== 'CONFLICT') throw thrown
      // Who took the name meanwhile may be an instance of another type, which is told by naming that.
      refuseAny(await this.refusalsOfReferences(type, values))
      throw thrown
    }
  }

  async update(
    type: string,
    name: string,
    change: Change<Record<string, unknown>>,
    caller: Caller,
  ): Promise<PluginConfiguration> {
    const kind = this.#types.get(type)
    return this.#orm.em.fork().transactional(async (em) => {
      const stored = await locked(em, type, name)
      const before = this.#opened(stored)
      const refusals = async (values: Readonly<Record<string, unknown>>) => ({
        ...refusalsOfKeptSecrets<Record<string, unknown>>(change, before, secretsOfUrl(kind)),
        ...(await refusalsOfReferences(em, kind, values)),
      })
      // The rules of the type have checked it, and all of them have a name and enabled.
      const next = (await checkedWithReferences(
        () => change.applyTo(before),
        () => refusals({ ...before, ...change.unchecked }),
      )) as PluginValues
      refuseAny(await refusals(next))
      const events = this.#eventsOf(kind)
      const changes = events.changes(before, next)
      // Sealed anew, a secret that stays would look like another one.
      if (changes.length === 0) return shown(stored)
      Object.assign(stored, this.#sealed(type, next))
      await events.updated({ em, caller }, subjectOf(stored), changes)
      return shown(stored)
    })
  }

  /** What an unchecked body of a new configuration refers to and is not there, or not free, by property. */
  async refusalsOfReferences(
    type: string,
    body: Readonly<Record<string, unknown>>,
  ): Promise<Record<string, string>> {
    const kind = this.#types.get(type)
    return this.#orm.em.fork().transactional((em) => refusalsOfCreation(em, kind, body))
  }

  async delete(type: string, name: string, caller: Caller): Promise<void> {
    const kind = this.#types.get(type)
    await this.#orm.em.fork().transactional(async (em) => {
      const stored = await locked(em, type, name)
      await refuseWhileUsed(
        em,
        { code: 'CONFLICT', subject: `The plugin instance ${name}` },
        { query: ROUTES_OF_INSTANCE, values: [name] },
      )
      em.remove(stored)
      await this.#eventsOf(kind).deleted({ em, caller }, subjectOf(stored), this.#lastValues(stored))
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

  async #insert(kind: PluginType, values: PluginValues, caller: Caller): Promise<PluginConfiguration> {
    const { type, role } = kind
    return this.#orm.em.fork().transactional(async (em) => {
      refuseAny(await refusalsOfCreation(em, kind, values))
      if ((await holderOf(em, values.name)) !== null) throw nameTaken(values.name)
      const stored = em.create(PluginConfigurationEntity, { type, role, ...this.#sealed(type, values) })
      await refusingViolations({ plugin_configuration_pkey: () => nameTaken(values.name) }, () => em.flush())
      await this.#eventsOf(kind).created({ em, caller }, subjectOf(stored), { type, ...values })
      return shown(stored)
    })
  }

  /** Secrets that are damaged must not keep a configuration from being deleted. */
  #lastValues(stored: StoredPluginConfiguration): Readonly<Record<string, unknown>> {
    const { type, name, enabled, settings, secrets } = stored
    try {
      return { type, ...this.#opened(stored) }
    } catch {
      return { type, ...settings, secrets, name, enabled }
    }
  }

  #eventsOf({ secrets }: PluginType): RecordEvents {
    return new RecordEvents({ audit: this.#audit, kind: 'plugin-configuration', secret: secrets })
  }

  #instance(stored: StoredPluginConfiguration): InstanceSettings {
    const { name, enabled: _, ...settings } = this.#opened(stored)
    return { type: stored.type, name, generation: stored.generation, settings }
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

/** The write-only settings that belong to the URL of an instance, which may be one itself. */
function secretsOfUrl({ secrets }: PluginType) {
  return { url: 'url', secrets: secrets.filter((secret) => secret !== 'url') }
}

function refuseAny(details: Readonly<Record<string, string>>): void {
  if (Object.keys(details).length > 0) throw validationFailure(details)
}

/** Another instance of the type is a conflict, and not told here; one of another type is told by naming that type. */
async function refusalsOfCreation(
  em: EntityManager,
  kind: PluginType,
  values: Readonly<Record<string, unknown>>,
): Promise<Record<string, string>> {
  const details = await refusalsOfReferences(em, kind, values)
  const { name } = values
  const holder = typeof name === 'string' ? await holderOf(em, name) : null
  if (holder !== null && holder.type !== kind.type)
    details['name'] = `is the name of an instance of the type ${holder.type}`
  return details
}

/** Names are compared without regard to case; all that are stored are in lower case. */
async function holderOf(em: EntityManager, name: string): Promise<StoredPluginConfiguration | null> {
  return em.findOne(PluginConfigurationEntity, { name: name.toLowerCase() })
}

/** The shared locks keep what is named until the configuration is committed. */
async function refusalsOfReferences(
  em: EntityManager,
  type: PluginType,
  values: Readonly<Record<string, unknown>>,
): Promise<Record<string, string>> {
  const details = await refusalsOfCertificateSettings(em, values)
  const name = organizationOf(type, values)
  const lock = { lockMode: LockMode.PESSIMISTIC_READ } as const
  if (name !== null && (await em.findOne(OrganizationEntity, { name }, lock)) === null)
    details[ORGANIZATION_SETTING] = `there is no organization ${name}`
  return details
}

/** By property; of a list, the first reference that is refused tells why. */
async function refusalsOfCertificateSettings(
  em: EntityManager,
  values: Readonly<Record<string, unknown>>,
): Promise<Record<string, string>> {
  const settings = certificateSettings(values)
  const ids = Object.fromEntries(settings.map(({ id }, at) => [String(at), id]))
  const uses = Object.fromEntries(settings.map(({ use }, at) => [String(at), use]))
  const refusals = await refusalsOfCertificates(em, ids, uses)
  const details: Record<string, string> = {}
  for (const [at, refusal] of Object.entries(refusals)) {
    const { property } = settings[Number(at)] ?? {}
    if (property !== undefined) details[property] ??= refusal
  }
  return details
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

function subjectOf({ type, name }: StoredPluginConfiguration): EventSubject {
  return { id: instanceId(type, name), name }
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
