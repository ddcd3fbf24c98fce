import { threadId } from 'node:worker_threads'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { InstanceAction } from '../../runtime/lifecycle.ts'
import { listOf, pagingParameters, timestamp } from '../../runtime/endpoint/paging.ts'
import type { ServiceInstance } from '../../runtime/supervisor/service-instance.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { PluginFailures } from '../../storage/alerts/plugin-failures.ts'
import type { AuditLog } from '../../storage/audit/audit-log.ts'
import type { InstanceList } from '../../storage/plugins/instance-list.ts'
import { InstanceControl } from './instance-control.ts'

/** `/services`: the plugin instances of this process and the API server itself. */

export interface ServiceInstanceServices {
  readonly supervisor: Pick<Supervisor, 'list' | 'find' | 'start' | 'stop' | 'restart'>
  readonly instances: Pick<InstanceList, 'apply'>
  readonly audit: AuditLog
  readonly pluginFailures: Pick<PluginFailures, 'recorded'>
  /** This node's name. */
  readonly node: string
  readonly startedAt: Date
}

const ACTION_NAMES = ['start', 'stop', 'restart'] as const satisfies readonly InstanceAction[]
const API_SERVER = { type: 'api-server', name: 'main' } as const

const answer = z
  .object({
    type: z
      .string()
      .describe('The plugin type; `api-server` for the server itself.')
      .meta({ examples: ['file-writer'] }),
    name: z
      .string()
      .describe('Identifies the instance together with its type; `main` for the server itself.')
      .meta({ examples: ['orders-in'] }),
    status: z
      .enum(['running', 'stopped', 'error', 'starting', 'stopping'])
      .describe(
        '`starting` and `stopping` are passed through; no action is possible in them. An instance that broke down and is about to be started again is `starting`, too.',
      )
      .meta({ examples: ['running'] }),
    error: z
      .string()
      .nullable()
      .describe('Why the instance is in error; null in every other status.')
      .meta({ examples: [null] }),
    controllable: z.boolean().describe('False for the API server itself.'),
    state_since: timestamp.describe('When the instance entered the status.'),
    actions: z
      .array(z.enum(ACTION_NAMES))
      .describe('What is possible now: `start`, `stop`, `restart`; none while it is starting or stopping.')
      .meta({ examples: [['stop', 'restart']] }),
    restarts: z
      .int()
      .min(0)
      .describe('Restarts after a breakdown since the process began.')
      .meta({ examples: [0] }),
    pid_thread: z
      .int()
      .nullable()
      .describe('Id of its thread in the process; null while there is none.')
      .meta({ examples: [7] }),
    node: z
      .string()
      .describe('The node that answers, whose instance it is.')
      .meta({ examples: ['waybill-1'] }),
    held_back: z
      .string()
      .nullable()
      .describe(
        'Why a running source takes nothing in at present, such as a queue that is too long, a full disk, a folder that cannot be read, or another node that polls the folder; it goes on by itself. Null when it takes in, and for every other instance.',
      )
      .meta({ examples: [null] }),
  })
  .meta({ id: 'ServiceInstance', description: 'A plugin instance of this process, or the API server.' })

const tag = 'Services'

export function serviceInstanceEndpoints(services: ServiceInstanceServices): readonly Endpoint[] {
  const { supervisor } = services
  return [
    endpoint({
      method: 'GET',
      path: '/services',
      operationId: 'listServices',
      summary: 'List service instances',
      description:
        'Every plugin instance that the plugin manager of the answering process runs. An instance that is saved and enabled is listed at once, `stopped`; enabled instances start with the process. One that is disabled or deleted is stopped and listed no longer.',
      tag,
      query: z.object(pagingParameters()),
      answer: {
        kind: 'data',
        status: 200,
        schema: listOf('services', answer),
        description: 'The API server and every enabled plugin instance, by type and name.',
      },
      handle: ({ query }) => {
        const { limit, offset } = query
        const all = [apiServer(services), ...supervisor.list()]
        const page = all.slice(offset, offset + limit)
        return { services: page.map(shown), total: all.length, limit, offset }
      },
    }),
    actionEndpoint(services),
  ]
}

const ACTION_TEXT = `The answer comes when the action is complete and shows the instance in its new state.

| Action | Possible in | Then |
|---|---|---|
| \`start\` | \`stopped\`, \`error\` | \`running\` |
| \`stop\` | \`running\` | \`stopped\` |
| \`restart\` | \`running\`, \`error\` | \`running\` |

In any other status, and so also while another action is under way, it is refused with \`INVALID_STATE\`; \`details\` has the \`status\` and the actions that are \`allowed\`. A start, or the start of a restart, that fails or takes over 30 seconds is \`START_FAILED\` with the reason, and the instance is in \`error\`; the alert \`plugin_failed\` is raised before the answer. Where it was the database that did not answer, the start is tried again until it succeeds, and the alert is raised when it answers again. A stop lets work in hand finish for 30 seconds.

Every action on the API server is \`NOT_CONTROLLABLE\`, whatever it is called. An instance that is unknown, deleted or disabled is \`NOT_FOUND\`, also for an unknown action; an unknown action on a known instance is \`INVALID_ACTION\`.`

function actionEndpoint(services: ServiceInstanceServices): Endpoint {
  const { supervisor } = services
  const control = new InstanceControl(services)
  return endpoint({
    method: 'POST',
    path: '/services/{type}/{name}/{action}',
    operationId: 'controlService',
    summary: 'Start, stop or restart an instance',
    description: ACTION_TEXT,
    tag,
    params: z.object({
      type: z
        .string()
        .describe('Plugin type of the instance.')
        .meta({ examples: ['file-writer'] }),
      name: z
        .string()
        .describe('Name of the instance.')
        .meta({ examples: ['orders-in'] }),
      action: z
        .string()
        .describe('`start`, `stop` or `restart`.')
        .meta({ examples: ['restart'] }),
    }),
    answer: { kind: 'data', status: 200, schema: answer, description: 'The instance in its new state.' },
    errors: ['NOT_FOUND', 'INVALID_ACTION', 'NOT_CONTROLLABLE', 'INVALID_STATE', 'START_FAILED'],
    handle: async ({ path, caller, log }) => {
      const { type, name } = path
      if (type === API_SERVER.type && name === API_SERVER.name) {
        throw new WaybillError('NOT_CONTROLLABLE', 'The API server cannot be controlled by itself')
      }
      if (supervisor.find(type, name) === null)
        throw new WaybillError('NOT_FOUND', 'Service instance not found')
      const action = actionOf(path.action)
      log.info({ type, name, action, caller: caller.name }, 'Service action')
      return shown(await control.perform(action, type, name, { caller, log }))
    },
  })
}

function actionOf(text: string): InstanceAction {
  const action = ACTION_NAMES.find((each) => each === text)
  if (action !== undefined) return action
  throw new WaybillError('INVALID_ACTION', `The action must be one of ${ACTION_NAMES.join(', ')}`)
}

function apiServer({ node, startedAt }: ServiceInstanceServices): ServiceInstance {
  return {
    ...API_SERVER,
    status: 'running',
    error: null,
    controllable: false,
    state_since: startedAt,
    actions: [],
    restarts: 0,
    pid_thread: threadId,
    node,
    held_back: null,
  }
}

function shown(instance: ServiceInstance) {
  return { ...instance, actions: [...instance.actions], state_since: instance.state_since.toISOString() }
}
