import { z, type ZodObject } from 'zod'
import { WaybillError } from '../../runtime/errors.ts'
import type { PluginType } from '../../runtime/module.ts'
import { reference } from '../../runtime/endpoint/paging.ts'
import { recordName, type RecordRules } from '../../runtime/endpoint/record-rules.ts'

/** The rules of plugin configurations: those that all share and those of each type. */

/** Properties of every configuration beside the settings of its type. */
export interface PluginValues {
  readonly name: string
  readonly enabled: boolean
  readonly [setting: string]: unknown
}

export const sharedSettings = {
  name: recordName
    .describe('Names the instance, in routes too; it does not change. Unique across all types.')
    .meta({ examples: ['orders-in'] }),
  enabled: z
    .boolean()
    .default(true)
    .describe('Whether the instance can be started; an enabled one starts with the process.')
    .meta({ examples: [true] }),
}

/** The installed plugin types by their names. */
export class PluginTypes {
  readonly #types: ReadonlyMap<string, { readonly type: PluginType; readonly rules: RecordRules }>

  constructor(types: readonly PluginType[]) {
    this.#types = new Map(types.map((type) => [type.type, { type, rules: rulesOf(type) }]))
  }

  get all(): readonly PluginType[] {
    return [...this.#types.values()].map(({ type }) => type)
  }

  get rules(): readonly RecordRules[] {
    return [...this.#types.values()].map(({ rules }) => rules)
  }

  /** Throws INVALID_TYPE for a type that no installed module has. */
  get(type: string): PluginType {
    return this.#known(type).type
  }

  rulesOf(type: string): RecordRules {
    return this.#known(type).rules
  }

  #known(type: string) {
    const known = this.#types.get(type)
    if (known !== undefined) return known
    const names = [...this.#types.keys()].join(', ')
    throw new WaybillError('INVALID_TYPE', `There is no plugin type ${type}; the types are ${names}`)
  }
}

function rulesOf(type: PluginType): RecordRules {
  // Extending the settings, and not the other way round, keeps the rules across several of them.
  const schema: ZodObject = type.settings
    .safeExtend(sharedSettings)
    .strict()
    .meta({ title: type.title, ...describedBy(type) })
  return {
    name: `${pascalCase(type.type)}Configuration`,
    schema,
    readOnly: ['created_at', 'updated_at'],
    identity: { name: 'name', type: 'type' },
  }
}

/** What a type does, in words, for the OpenAPI document. */
export function describedBy(type: PluginType): { readonly description?: string } {
  const { description } = type.settings
  return description === undefined ? {} : { description }
}

/** `as2-receiver` as `As2Receiver`. */
export function pascalCase(type: string): string {
  return type
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
}

/** The properties of a type's settings that answers show. */
export function openShape(type: PluginType): ZodObject['shape'] {
  return Object.fromEntries(
    Object.entries(type.settings.shape).filter(([name]) => !type.secrets.includes(name)),
  )
}

export interface CertificateSetting {
  readonly property: string
  readonly id: number
  readonly use: 'identify' | 'trust'
}

/**
 * What of the settings refers to certificates: by our convention their names end so. A single one shows who we are, and
 * others are checked against those of a list.
 */
export function certificateSettings(values: Readonly<Record<string, unknown>>): CertificateSetting[] {
  return Object.entries(values).flatMap(([property, value]): CertificateSetting[] => {
    const isList = property.endsWith('certificate_ids') && Array.isArray(value)
    if (!isList && !property.endsWith('certificate_id')) return []
    const ids: unknown[] = isList ? value : [value]
    const use = isList ? 'trust' : 'identify'
    return ids
      .map((id) => reference.safeParse(id))
      .flatMap(({ data, success }) => (success ? [{ property, id: data, use }] : []))
  })
}

/** The setting that names one of the operator's organizations: by our convention it is called so. */
export const ORGANIZATION_SETTING = 'from'

/** The organization that a configuration names; null for none, or for what can be no name. */
export function organizationOf(type: PluginType, values: Readonly<Record<string, unknown>>): string | null {
  if (!(ORGANIZATION_SETTING in type.settings.shape)) return null
  const name = recordName.safeParse(values[ORGANIZATION_SETTING])
  return name.success ? name.data : null
}
