import { z, type ZodType } from 'zod'
import { endpoint, type ChosenRules, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { PluginType } from '../../runtime/module.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import { recordName } from '../../runtime/endpoint/record-rules.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type {
  PluginConfiguration,
  PluginConfigurations,
} from '../../storage/plugins/plugin-configurations.ts'
import { openShape, pascalCase, type PluginTypes, type PluginValues } from '../../storage/plugins/rules.ts'

/** `/plugins/configs`. */

export interface PluginServices {
  readonly plugins: PluginConfigurations
  readonly pluginTypes: PluginTypes
  readonly supervisor: Pick<Supervisor, 'configure' | 'remove'>
}

const tag = 'Plugins'
const params = z.object({
  type: z.string().describe('Plugin type.'),
  name: z.string().describe('Name of the instance.'),
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
        .meta({ required: true, type: 'string', description: `The plugin type: ${types}.` }),
    }),
    body: {
      kind: 'create',
      rules,
      references: (body, query) => services.plugins.refusalsOfReferences(askedType(query['type']), body),
    },
    answer: { ...stored, status: 201 },
    errors: ['MISSING_TYPE', 'INVALID_TYPE', 'CONFLICT'],
    handle: async ({ query, body }) => {
      const created = await services.plugins.create(askedType(query.type), body as PluginValues)
      await list(services, created)
      return shown(created)
    },
  })
}

function oneConfiguration(
  services: PluginServices,
  stored: StoredAnswer,
  rules: ChosenRules,
): readonly Endpoint[] {
  const { plugins, supervisor } = services
  return [
    endpoint({
      method: 'GET',
      path,
      operationId: 'getPluginConfiguration',
      summary: 'Get a plugin configuration',
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
        'Takes effect when the instance restarts; disabling it stops it. Write-only properties that are left out are kept, except when `url` changes.',
      tag,
      params,
      body: { kind: 'update', rules },
      answer: stored,
      errors: ['INVALID_TYPE'],
      handle: async (request) => {
        const { type, name } = request.path
        const updated = await plugins.update(type, name, request.body)
        await list(services, updated)
        return shown(updated)
      },
    }),
    endpoint({
      method: 'DELETE',
      path,
      operationId: 'deletePluginConfiguration',
      summary: 'Delete a plugin configuration',
      description: 'Stops the instance. Refused while a route uses it.',
      tag,
      params,
      answer: { kind: 'empty', description: 'Deleted.' },
      errors: ['INVALID_TYPE', 'CONFLICT'],
      handle: async (request) => {
        const { type, name } = request.path
        await plugins.delete(type, name)
        await supervisor.remove(type, name)
        return undefined
      },
    }),
  ]
}

/** An enabled instance is listed at once, a disabled one is stopped and listed no longer. */
async function list(
  { supervisor, pluginTypes }: PluginServices,
  configuration: PluginConfiguration,
): Promise<void> {
  const { type, name, enabled } = configuration
  if (enabled) supervisor.configure({ type, name, role: pluginTypes.get(type).role })
  else await supervisor.remove(type, name)
}

function askedType(type: unknown): string {
  if (typeof type !== 'string' || type === '') {
    throw new WaybillError('MISSING_TYPE', 'The query parameter type is missing')
  }
  return type
}

/** One schema a type. */
function answerOf(types: readonly PluginType[]): ZodType {
  const [first, ...others] = types.map((type) =>
    z
      .object({
        type: z.literal(type.type),
        name: recordName,
        enabled: z.boolean(),
        ...openShape(type),
        created_at: timestamp,
        updated_at: timestamp,
      })
      .meta({ id: `${pascalCase(type.type)}Configuration`, description: type.title }),
  )
  if (first === undefined) return z.never()
  return z.union([first, ...others]).meta({ id: 'PluginConfiguration' })
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
