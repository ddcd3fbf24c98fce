import type { Pool } from 'pg'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { listOf, pagingParameters } from '../../runtime/endpoint/paging.ts'
import { periodEnd, periodStart } from '../../runtime/endpoint/period.ts'
import { listNotifications } from '../../storage/alerts/notification-log.ts'
import type { PluginTypes } from '../../storage/plugins/rules.ts'
import { notification, outcome, severity, shownNotification } from './notifications-answer.ts'
import { testEndpoint, type NotificationTestServices } from './notifications-test.ts'

/** `/notifications`: what people were told of, and by whom. */

export interface NotificationServices extends NotificationTestServices {
  readonly pool: Pool
  readonly pluginTypes: PluginTypes
}

const NOTIFICATIONS_ON_A_PAGE = 50
const text = z.string().min(1).max(300).optional()

/** The endpoints of notifiers; none where no installed module has any. */
export function notificationEndpoints(services: NotificationServices): readonly Endpoint[] {
  const hasNotifiers = services.pluginTypes.all.some(({ role }) => role === 'notifier')
  return hasNotifiers ? [listEndpoint(services), testEndpoint(services)] : []
}

const LIST_TEXT = `Every alert has one row for each notifier that was enabled when it was raised and whose \`min_severity\` and \`codes\` let it through, started or not; a row waits for its notifier. An alert that no notifier takes has no row; that of a certificate waits until one takes it.

| Code | Severity | Raised when |
|---|---|---|
| \`plugin_failed\` | critical | an instance did not start, or broke down too often. A stop raises nothing. |
| \`delivery_stalled\` | critical | no target took a delivery. |
| \`delivery_failed\` | critical | a delivery failed for good. |
| \`receipt_overdue\` | critical | a delivery failed because its receipt did not come in time; then \`delivery_failed\` is not raised. |
| \`message_refused\` | warning | a source refused a message. |
| \`certificate_expiring\` | warning, critical from 7 days on | a certificate that a profile or an enabled instance uses ends in 30, 14, 7 or 1 days; once each. One that is only kept as a previous one is a warning, however soon. |
| \`certificate_expired\` | critical, warning of a previous one | such a certificate has ended. |
| \`storage_failed\` | critical | payloads cannot be stored; once until they can be stored again. |
| \`test\` | info | a test was asked for. Such rows are left out unless \`include_tests\` is true. |

Filters combine; a parameter that is not listed here is refused.`

function listEndpoint({ pool, publicUrl }: NotificationServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/notifications',
    operationId: 'listNotifications',
    summary: 'List notifications',
    description: LIST_TEXT,
    tag: 'Notifications',
    query: z.strictObject({
      ...pagingParameters(NOTIFICATIONS_ON_A_PAGE),
      severity: severity
        .optional()
        .meta({ description: 'Alerts of this severity, not of those above it.', examples: ['critical'] }),
      code: text.meta({
        description: 'Alerts of this code; one that there is not finds nothing.',
        examples: ['delivery_failed'],
      }),
      instance: text.meta({
        description: 'Rows of the notifier of this name; one that there is not finds nothing.',
        examples: ['operators'],
      }),
      outcome: outcome.optional().meta({ description: 'Rows of this outcome.', examples: ['failed'] }),
      from: periodStart(
        'Alerts at this time (RFC 3339, with any offset) or later; a date is the beginning of that day, UTC. A plus sign in it is written %2B.',
      ).optional(),
      to: periodEnd(
        'Alerts before this time (RFC 3339, with any offset); a date names that whole day, UTC.',
      ).optional(),
      include_tests: z
        .string({ error: 'must be true or false' })
        .refine((given) => given === 'true' || given === 'false', { error: 'must be true or false' })
        .prefault('false')
        .transform((given) => given === 'true')
        .meta({ type: 'boolean', default: false, description: 'Whether test notifications are listed too.' }),
    }),
    answer: {
      kind: 'data',
      status: 200,
      schema: listOf('notifications', notification),
      description: 'The page, newest alert first.',
    },
    handle: async ({ query }) => {
      const { limit, offset, ...filter } = query
      const { items, total } = await listNotifications(pool, filter, { limit, offset })
      const notifications = items.map((item) => shownNotification(item, publicUrl()))
      return { notifications, total, limit, offset }
    },
  })
}
