import type { Pool } from 'pg'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import type { InstanceStatus } from '../../runtime/lifecycle.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { PluginTypes } from '../../storage/plugins/rules.ts'
import { enabledInstances, readStats } from '../../storage/stats/stats.ts'

/** `/stats`: how the exchange does. */

export interface StatsServices {
  readonly pool: Pool
  readonly pluginTypes: PluginTypes
  readonly supervisor: Pick<Supervisor, 'list' | 'hasStarted'>
}

/** With more failed messages than these in 24 hours the system is degraded (specification, 2.13). */
const TOLERATED_FAILURES = 10

const PLUGIN_STATUSES = ['Enabled', 'Running', 'Stopped', 'Error'] as const
type PluginStatus = (typeof PLUGIN_STATUSES)[number]

/** Nothing is taken in or delivered before the instance runs; until it has stopped, work in hand is finished. */
const STATUS_HERE = {
  running: 'Running',
  stopping: 'Running',
  starting: 'Stopped',
  stopped: 'Stopped',
  error: 'Error',
} as const satisfies Record<InstanceStatus, PluginStatus>

const count = (description: string, example: number) =>
  z
    .int()
    .min(0)
    .describe(description)
    .meta({ examples: [example] })

const answer = z
  .object({
    messages_last_24h: count('Messages that were accepted in the last 24 hours, of both directions.', 1284),
    messages_last_7d: count('Messages that were accepted in the last 7 days, of both directions.', 8410),
    sent_last_24h: count('The outbound ones of the last 24 hours.', 731),
    received_last_24h: count('The inbound ones of the last 24 hours.', 553),
    in_flight_messages: count('Messages that are Received, InProgress, Retrying or AwaitingReceipt now.', 4),
    failed_last_24h: count(
      'Messages that reached Error or Stalled in the last 24 hours, each counted once, whatever became of it since and whenever it was accepted. Refused messages are not counted.',
      2,
    ),
    system_status: z
      .enum(['Healthy', 'Degraded'])
      .describe(
        `\`Degraded\` when more than ${TOLERATED_FAILURES} messages failed in the last 24 hours, otherwise \`Healthy\`.`,
      ),
    plugin_status: z
      .record(z.string(), z.enum(PLUGIN_STATUSES))
      .describe(
        'Every enabled plugin instance, keyed `<type>:<name>`. `Enabled` is one that the answering process does not run or has not started yet. Otherwise it is its status in that process: `Running`, also while it is stopping; `Stopped`, also while it is starting; `Error`. An instance that is disabled is left out.',
      )
      .meta({ examples: [{ 'as2-receiver:as2-in': 'Running', 'file-writer:archive': 'Enabled' }] }),
  })
  .meta({ id: 'Stats', description: 'Figures of the exchange, all of one moment.' })

export function statsEndpoint(services: StatsServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/stats',
    operationId: 'getStats',
    summary: 'Get the figures of the exchange',
    description:
      'The last 24 hours and the last 7 days end with the request. The figures are those of all nodes; `plugin_status` is that of the answering one.',
    tag: 'Server',
    answer: { kind: 'data', status: 200, schema: answer, description: 'The figures.' },
    handle: async () => {
      const [stats, plugins] = await Promise.all([readStats(services.pool), pluginStatus(services)])
      const { sent_last_24h, received_last_24h, failed_last_24h } = stats
      return {
        messages_last_24h: sent_last_24h + received_last_24h,
        ...stats,
        system_status: failed_last_24h > TOLERATED_FAILURES ? ('Degraded' as const) : ('Healthy' as const),
        plugin_status: plugins,
      }
    },
  })
}

async function pluginStatus(services: StatsServices): Promise<Record<string, PluginStatus>> {
  const { pool, pluginTypes, supervisor } = services
  const enabled = await enabledInstances(pool, pluginTypes)
  const configured = enabled.map((each) => [keyOf(each), 'Enabled'] as const)
  const here = supervisor
    .list()
    .map(
      (each) =>
        [
          keyOf(each),
          supervisor.hasStarted(each.type, each.name) ? STATUS_HERE[each.status] : 'Enabled',
        ] as const,
    )
  return Object.fromEntries([...configured, ...here].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function keyOf({ type, name }: { readonly type: string; readonly name: string }): string {
  return `${type}:${name}`
}
