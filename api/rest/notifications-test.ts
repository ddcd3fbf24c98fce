import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import { notificationOf, raiseTest, type Notification } from '../../storage/alerts/notification-log.ts'
import { notification, shownNotification } from './notifications-answer.ts'

/** The test of a notifier: a notification of its own, whose row is the answer. */

export interface NotificationTestServices {
  readonly pool: Pool
  readonly supervisor: Pick<Supervisor, 'find' | 'announce'>
  /** What links begin with. */
  readonly publicUrl: () => string
}

const NOTIFIER = 'notification-webhook'
/** The answer is awaited so long; a post that takes longer goes on without it. */
const WAIT_MS = 10_000
/** Between two looks at the row. */
const LOOK_MS = 100

export function testEndpoint(services: NotificationTestServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: `/plugins/configs/${NOTIFIER}/{name}/test`,
    operationId: 'testNotifier',
    summary: 'Send a test notification',
    description: `Posts a test to the webhook of this notifier alone, with the settings it runs with: once, whatever its filters, its cooldown and its grouping say. The answer waits up to ${WAIT_MS / 1000} seconds for what comes of it: \`delivered\`, or \`failed\` with \`last_error\`. It is \`queued\` when the post takes longer, and when the notifier does not run in the answering process or is disabled: then it is posted when the notifier runs. A test that arrives has the alerts that wait to be repeated posted at once.`,
    tag: 'Notifications',
    params: z.object({
      name: z
        .string()
        .describe('Name of the notifier.')
        .meta({ examples: ['operators'] }),
    }),
    answer: {
      kind: 'data',
      status: 200,
      schema: notification,
      description: 'The row of the test in the notification log.',
    },
    errors: ['NOT_FOUND'],
    handle: async ({ path, signal }) => {
      const { name } = path
      const id = await raiseTest(services.pool, name)
      if (id === null) throw notFound()
      services.supervisor.announce(name, 1)
      const row = await outcomeOf(services, { id, name, signal })
      return shownNotification(row, services.publicUrl())
    },
  })
}

/** The row when its outcome is known, or nobody works on it, or it has taken long enough. */
async function outcomeOf(
  { pool, supervisor }: NotificationTestServices,
  { id, name, signal }: { readonly id: number; readonly name: string; readonly signal: AbortSignal },
): Promise<Notification> {
  const ending = AbortSignal.any([signal, AbortSignal.timeout(WAIT_MS)])
  for (;;) {
    // Asked first: what an instance has done before it ended stands in the row that is read afterwards.
    const runs = supervisor.find(NOTIFIER, name)?.status === 'running'
    const row = await notificationOf(pool, id)
    if (row === null) throw notFound()
    if (row.outcome !== 'queued' || !runs || ending.aborted) return row
    await sleep(LOOK_MS, undefined, { signal: ending }).catch(() => undefined)
  }
}

function notFound(): WaybillError {
  return new WaybillError('NOT_FOUND', 'Plugin configuration not found')
}
