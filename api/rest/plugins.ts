import { z, type ZodType } from 'zod'
import { endpoint, type ChosenRules, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { PluginType } from '../../runtime/module.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import type { PluginFailures } from '../../storage/alerts/plugin-failures.ts'
import type { AuditLog } from '../../storage/audit/audit-log.ts'
import type { InstanceList } from '../../storage/plugins/instance-list.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type {
  PluginConfiguration,
  PluginConfigurations,
} from '../../storage/plugins/plugin-configurations.ts'
import {
  describedBy,
  openShape,
  pascalCase,
  sharedSettings,
  type PluginTypes,
  type PluginValues,
} from '../../storage/plugins/rules.ts'
import { InstanceControl } from './instance-control.ts'

/** `/plugins/configs`. */

export interface PluginServices {
  readonly plugins: PluginConfigurations
  readonly pluginTypes: PluginTypes
  readonly supervisor: Pick<Supervisor, 'find' | 'start' | 'stop' | 'restart'>
  /** Told of what was saved: an enabled instance is listed at once, a disabled one is stopped and listed no longer. */
  readonly instances: Pick<InstanceList, 'apply'>
  readonly audit: AuditLog
  readonly pluginFailures: Pick<PluginFailures, 'recorded'>
}

const tag = 'Plugins'
const params = z.object({
  type: z
    .string()
    .describe('Plugin type.')
    .meta({ examples: ['file-writer'] }),
  name: z
    .string()
    .describe('Name of the instance.')
    .meta({ examples: ['orders-in'] }),
})
const path = '/plugins/configs/{type}/{name}'

export function pluginEndpoints(services: PluginServices): readonly Endpoint[] {
  const { pluginTypes } = services
  const stored = {
    kind: 'data',
    status: 200,
    schema: answerOf(pluginTypes.all),
    description: 'The stored configuration, without its write-only properties.',
  } as const
  const rules: ChosenRules = {
    choose: (names) => pluginTypes.rulesOf(names.path['type'] ?? askedType(names.query['type'])),
    all: pluginTypes.rules,
    name: 'PluginConfiguration',
  }
  return [creation(services, stored, rules), ...oneConfiguration(services, stored, rules)]
}

interface StoredAnswer {
  readonly kind: 'data'
  readonly status: 200
  readonly schema: ZodType
  readonly description: string
}

function creation(services: PluginServices, stored: StoredAnswer, rules: ChosenRules): Endpoint {
  const types = services.pluginTypes.all.map(({ type }) => type).join(', ')
  return endpoint({
    method: 'POST',
    path: '/plugins/configs',
    operationId: 'createPluginConfiguration',
    summary: 'Create a plugin configuration',
    description:
      'An enabled instance is listed under `/services` as stopped; it starts when it is told to, or with the process.',
    tag,
    query: z.object({
      // Checked by the choice of the rules, which has codes of its own for it.
      type: z
        .unknown()
        .optional()
        .meta({
          required: true,
          type: 'string',
          description: `The plugin type: ${types}.`,
          examples: ['file-writer'],
        }),
    }),
    body: {
      kind: 'create',
      rules,
      references: (body, query) => services.plugins.refusalsOfReferences(askedType(query['type']), body),
    },
    answer: { ...stored, status: 201 },
    errors: ['MISSING_TYPE', 'INVALID_TYPE', 'CONFLICT'],
    handle: async ({ query, body, caller, log }) => {
      const created = await services.plugins.create(askedType(query.type), body as PluginValues, caller)
      await new InstanceControl(services).apply(created.type, created.name, { caller, log })
      return shown(created)
    },
  })
}

function oneConfiguration(
  services: PluginServices,
  stored: StoredAnswer,
  rules: ChosenRules,
): readonly Endpoint[] {
  const { plugins } = services
  const control = new InstanceControl(services)
  return [
    endpoint({
      method: 'GET',
      path,
      operationId: 'getPluginConfiguration',
      summary: 'Get a plugin configuration',
      description:
        'As it is saved, without its write-only properties. What runs is listed under `/services`.',
      tag,
      params,
      answer: stored,
      errors: ['INVALID_TYPE'],
      handle: async (request) => shown(await plugins.get(request.path.type, request.path.name)),
    }),
    endpoint({
      method: 'PUT',
      path,
      operationId: 'updatePluginConfiguration',
      summary: 'Update a plugin configuration',
      description:
        'Takes effect when the instance restarts, and restarts nothing; disabling an instance stops it. What is left out keeps its value, write-only properties too; those must be sent again when `url` changes.',
      tag,
      params,
      body: { kind: 'update', rules },
      answer: stored,
      errors: ['INVALID_TYPE'],
      handle: async (request) => {
        const { type, name } = request.path
        const updated = await plugins.update(type, name, request.body, request.caller)
        await control.apply(type, name, request)
        return shown(updated)
      },
    }),
    endpoint({
      method: 'DELETE',
      path,
      operationId: 'deletePluginConfiguration',
      summary: 'Delete a plugin configuration',
      description: 'Stops the instance when it runs. Refused while a route names it.',
      tag,
      params,
      answer: { kind: 'empty', description: 'Deleted.' },
      errors: ['INVALID_TYPE', 'CONFLICT'],
      handle: async (request) => {
        const { type, name } = request.path
        await plugins.delete(type, name, request.caller)
        await control.apply(type, name, request)
        return undefined
      },
    }),
  ]
}

function askedType(type: unknown): string {
  if (Array.isArray(type)) throw validationFailure({ type: `must be given once, not ${type.length} times` })
  if (typeof type !== 'string' || type === '') {
    throw new WaybillError('MISSING_TYPE', 'The query parameter type is missing')
  }
  return type
}

/** One schema a type, told apart by the property `type`. */
function answerOf(types: readonly PluginType[]): ZodType {
  const [first, ...others] = types.map((type) =>
    z
      .object({
        type: z.literal(type.type).describe('The plugin type.'),
        ...sharedSettings,
        ...openShape(type),
        created_at: timestamp.describe('When the configuration was created.'),
        updated_at: timestamp.describe('When the configuration was saved last.'),
      })
      .meta({ id: answerName(type), title: type.title, ...describedBy(type) }),
  )
  if (first === undefined) return z.never()
  const mapping = types.map((type) => [type.type, `#/components/schemas/${answerName(type)}`] as const)
  return z.union([first, ...others]).meta({
    id: 'PluginConfiguration',
    description:
      'A stored configuration without its write-only properties; its type says which others it has.',
    discriminator: { propertyName: 'type', mapping: Object.fromEntries(mapping) },
  })
}

function answerName(type: PluginType): string {
  return `${pascalCase(type.type)}Configuration`
}

function shown(configuration: PluginConfiguration) {
  const { type, name, enabled, settings, created_at, updated_at } = configuration
  return {
    ...settings,
    type,
    name,
    enabled,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
