import { z } from 'zod'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import { SEVERITIES, SUBJECT_KINDS } from '../../storage/alerts/alert.ts'
import { linkOf } from '../../storage/alerts/link.ts'
import { OUTCOMES, type Notification } from '../../storage/alerts/notification-log.ts'

/** A row of the notification log as answers show it (specification, 2.14). */

export const severity = z.enum(SEVERITIES)
export const outcome = z.enum(OUTCOMES)

const text = (description: string, example: string) =>
  z
    .string()
    .describe(description)
    .meta({ examples: [example] })

const subject = {
  subject_kind: z
    .enum(SUBJECT_KINDS)
    .describe('What the alert is about.')
    .meta({ examples: ['message'] }),
  subject_id: text(
    'Which one: the id of a message or certificate, `<type>:<name>` of a plugin instance, `payloads` for the storage.',
    '2f1d6b0e-8c1a-4b52-9d0f-6a3d1f5a7c21',
  ),
  subject_name: text(
    'Its name: the file name of a message, the name of an instance, the common name of a certificate, the directory or bucket of the storage, or the data directory where its disk is full.',
    'invoice-4711.edi',
  ),
}

const post = {
  instance: text('The notifier: the name of its configuration, which may be gone since.', 'operators'),
  format: text(
    'What its post looks like, `generic`, `slack` or `teams`: the format that the instance ran with when it posted; before, and without a post, the one that was saved when the alert was raised.',
    'slack',
  ),
  test: z.boolean().describe('Whether it is a test notification, and no alert.'),
  outcome: outcome.describe(
    '`queued` waits to be posted, or posted again; `delivered` was taken by the receiver; `failed` was refused by it, or tried too often; `suppressed_cooldown` was left out, because an alert of the same `dedupe_key` was posted within `cooldown_minutes`, or with the group that it would have been in; `grouped` goes along with the post of another row.',
  ),
  attempts: z
    .int()
    .min(0)
    .describe('Posts that were tried; 0 for a row without a post of its own.')
    .meta({ examples: [1] }),
  last_error: z
    .string()
    .nullable()
    .describe('Why the last post failed; null when it did not, and before the first.')
    .meta({ examples: ['The webhook answered with 503 Service Unavailable'] }),
}

export const notification = z
  .object({
    id: z
      .int()
      .describe(
        'The row. The `webhook-id` of its post begins with it: `<id>-<UUID>`, the same in each repeat.',
      ),
    alert_id: z.int().describe('The alert; rows of other notifiers have the same.'),
    alert_time: timestamp.describe('When the alert was raised.'),
    severity: severity.describe('How bad it is.').meta({ examples: ['critical'] }),
    code: text('What has happened, as a code.', 'delivery_failed'),
    ...subject,
    summary: text(
      'What has happened, in one sentence.',
      'The delivery of invoice-4711.edi from acme to globex by as2-out has failed',
    ),
    details: text('The reason and what an operator needs to know, in lines of plain text.', 'Attempts: 8'),
    dedupe_key: text(
      'Alerts of the same key tell the same trouble: a notifier posts one of them within its cooldown.',
      'delivery_failed/as2-out/globex',
    ),
    link: z
      .string()
      .nullable()
      .describe(
        'Where to look: the address of the subject in this API, below PUBLIC_URL, which takes a token like any other request; null for none.',
      )
      .meta({
        examples: ['https://waybill.example.com/api/v1/messages/2f1d6b0e-8c1a-4b52-9d0f-6a3d1f5a7c21'],
      }),
    ...post,
    created_at: timestamp.describe('When the row was made.'),
    delivered_at: timestamp
      .nullable()
      .describe('When the receiver took the post that the row is in; null when it has not.'),
  })
  .meta({ id: 'Notification', description: 'What became of one alert with one notifier.' })

export function shownNotification(row: Notification, publicUrl: string): z.input<typeof notification> {
  const { link_path, alert_time, created_at, delivered_at, ...others } = row
  return {
    ...others,
    link: linkOf(publicUrl, link_path),
    alert_time: alert_time.toISOString(),
    created_at: created_at.toISOString(),
    delivered_at: delivered_at?.toISOString() ?? null,
  }
}
