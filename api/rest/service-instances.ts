import { threadId } from 'node:worker_threads'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { InstanceAction } from '../../runtime/lifecycle.ts'
import { listOf, pagingParameters, timestamp } from '../../runtime/endpoint/paging.ts'
import type { ServiceInstance } from '../../runtime/supervisor/service-instance.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'

/** `/services`: the plugin instances of this process and the API server itself. */

export interface ServiceInstanceServices {
  readonly supervisor: Pick<Supervisor, 'list' | 'find' | 'start' | 'stop' | 'restart'>
  /** This node's name. */
  readonly node: string
  readonly startedAt: Date
}

const ACTION_NAMES = ['start', 'stop', 'restart'] as const satisfies readonly InstanceAction[]
const API_SERVER = { type: 'api-server', name: 'main' } as const

const answer = z
  .object({
    type: z.string(),
    name: z.string(),
    status: z.enum(['running', 'stopped', 'error', 'starting', 'stopping']),
    error: z.string().nullable().describe('Why the instance is in error.'),
    controllable: z.boolean().describe('False for the API server itself.'),
    state_since: timestamp,
    actions: z.array(z.enum(ACTION_NAMES)).describe('What is possible now.'),
    restarts: z.int().min(0).describe('Restarts after a breakdown since the process began.'),
    pid_thread: z.int().nullable().describe('Id of the thread while there is one.'),
    node: z.string(),
  })
  .meta({ id: 'ServiceInstance' })

const tag = 'Services'

export function serviceInstanceEndpoints(services: ServiceInstanceServices): readonly Endpoint[] {
  const { supervisor } = services
  return [
    endpoint({
      method: 'GET',
      path: '/services',
      operationId: 'listServices',
      summary: 'List service instances',
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
    endpoint({
      method: 'POST',
      path: '/services/{type}/{name}/{action}',
      operationId: 'controlService',
      summary: 'Start, stop or restart an instance',
      description: 'Waits until the action is complete. An instance that is disabled is unknown here.',
      tag,
      params: z.object({
        type: z.string().describe('Plugin type of the instance.'),
        name: z.string().describe('Name of the instance.'),
        action: z.string().describe('`start`, `stop` or `restart`.'),
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
        return shown(await supervisor[action](type, name))
      },
    }),
  ]
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
  }
}

function shown(instance: ServiceInstance) {
  return { ...instance, actions: [...instance.actions], state_since: instance.state_since.toISOString() }
}
