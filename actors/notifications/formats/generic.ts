import { z } from 'zod'
import { SEVERITIES, SUBJECT_KINDS, type Alert } from '../../../storage/alerts/alert.ts'
import { linkOf } from '../../../storage/alerts/link.ts'
import { MAX_LISTED } from '../../../storage/alerts/outbox.ts'
import type { PostFacts } from './post-facts.ts'
import { logLinkOf } from './wording.ts'

/**
 * Our own JSON, for programs. What it means stays the same within a version; properties may be added. Names and texts are
 * as the notification log has them: whoever shows them to people sees to it that they are text alone.
 */

const postedAlert = z
  .object({
    alert_id: z
      .int()
      .describe('Number of the alert, the same in each notifier and in the notification log.')
      .meta({ examples: [4711] }),
    alert_time: z.iso
      .datetime()
      .describe('When it happened, in UTC.')
      .meta({ examples: ['2026-03-01T02:14:07.120Z'] }),
    severity: z
      .enum(SEVERITIES)
      .describe('How urgent it is.')
      .meta({ examples: ['critical'] }),
    code: z
      .string()
      .describe('What happened: one of the codes that a notifier can be limited to, or `test`.')
      .meta({ examples: ['delivery_failed'] }),
    subject_kind: z
      .enum(SUBJECT_KINDS)
      .describe('What kind of thing it happened to.')
      .meta({ examples: ['message'] }),
    subject_id: z
      .string()
      .describe('Which one: the id of a message or certificate, or `<type>:<name>` of a plugin instance.')
      .meta({ examples: ['0195514c-6b1e-7a3c-8d55-3f2e6a9b1c0d'] }),
    subject_name: z
      .string()
      .describe('What people call it, such as the name of a file.')
      .meta({ examples: ['invoice.edi'] }),
    summary: z
      .string()
      .describe('One sentence that tells what happened.')
      .meta({ examples: ['The delivery of invoice.edi to globex by erp-out failed'] }),
    details: z
      .string()
      .describe('The reason and the facts, a line each; may be empty.')
      .meta({ examples: ['The server answered 404 Not Found'] }),
    dedupe_key: z
      .string()
      .describe('What repeats: alerts with the same key are told once within the cooldown.')
      .meta({ examples: ['delivery_failed/erp-out/globex'] }),
    link: z
      .string()
      .nullable()
      .describe(
        'Where the subject is looked at: an address of the API, which takes a token like any other request; null where there is no such place.',
      )
      .meta({
        examples: ['https://edi.example.com/api/v1/messages/0195514c-6b1e-7a3c-8d55-3f2e6a9b1c0d'],
      }),
    test: z
      .boolean()
      .describe('Whether somebody only tries the notifier out.')
      .meta({ examples: [false] }),
  })
  .describe('An alert, as the notification log has it.')
  .meta({ id: 'PostedAlert' })

/** The body of a post in the format `generic`. */
export const alertPost = z
  .object({
    version: z
      .literal('1')
      .describe('Version of this format. Properties may be added within a version.')
      .meta({ examples: ['1'] }),
    type: z
      .enum(['alert.raised', 'alert.grouped', 'alert.test'])
      .describe('One alert, several that share the post, or a test of the notifier.')
      .meta({ examples: ['alert.raised'] }),
    notifier: z
      .string()
      .describe('Name of the `notification-webhook` that posts.')
      .meta({ examples: ['ops'] }),
    count: z
      .int()
      .min(1)
      .describe('How many alerts the post stands for.')
      .meta({ examples: [1] }),
    severity: z
      .enum(SEVERITIES)
      .describe('The worst severity of all alerts that the post stands for, listed or not.')
      .meta({ examples: ['critical'] }),
    log: z
      .string()
      .describe(
        'Where the notification log of this notifier is read, which has every alert of the post: an address of the API, which takes a token like any other request.',
      )
      .meta({ examples: ['https://edi.example.com/api/v1/notifications?instance=ops'] }),
    alert: postedAlert.describe('The first of `alerts`.'),
    alerts: z
      .array(postedAlert)
      .min(1)
      .max(MAX_LISTED)
      .describe(
        `The worst first; of the same severity, what repeats a \`dedupe_key\` after all others, and else the oldest first. At most ${MAX_LISTED} of \`count\`.`,
      ),
  })
  .describe(
    'A post of a `notification-webhook` in the format `generic`. The header `webhook-id` is the same in each repeat of a post, and the signature that of Standard Webhooks.',
  )

export type AlertPost = z.output<typeof alertPost>

export function genericBody(facts: PostFacts): AlertPost {
  const { alerts, count, severity, test, notifier, publicUrl } = facts
  const listed = alerts.slice(0, MAX_LISTED).map((alert) => posted(alert, publicUrl))
  const [alert] = listed
  if (alert === undefined) throw new Error('A post has no alert')
  const type = test ? 'alert.test' : count > 1 ? 'alert.grouped' : 'alert.raised'
  return { version: '1', type, notifier, count, severity, log: logLinkOf(facts), alert, alerts: listed }
}

function posted(alert: Alert, publicUrl: string): AlertPost['alert'] {
  const { id, alert_time, subject_name, summary, details, link_path, ...rest } = alert
  const { severity, code, subject_kind, subject_id, dedupe_key, test } = rest
  return {
    alert_id: id,
    alert_time: alert_time.toISOString(),
    severity,
    code,
    subject_kind,
    subject_id,
    subject_name,
    summary,
    details,
    dedupe_key,
    link: linkOf(publicUrl, link_path),
    test,
  }
}
