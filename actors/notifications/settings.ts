import { z } from 'zod'
import { basicPassword, basicUsername, checkBasicPair } from '../../runtime/endpoint/basic-credentials.ts'
import { httpHeaders } from '../../runtime/endpoint/http-headers.ts'
import { refusalOfUrl, urlAllowing } from '../../runtime/endpoint/target-url.ts'
import { ALERT_CODES, SEVERITIES } from '../../storage/alerts/alert.ts'
import { checkRetryWaits, retrySettings } from '../../storage/plugins/target-settings.ts'
import { checkHeaders } from '../http/credentials.ts'
import { SIGNATURE_HEADERS, signingSecret } from '../http/signature.ts'
import { FORMATS, type Format } from './formats/format.ts'

/** What an address of Teams carries; elsewhere it is refused like any other credential. */
const TEAMS_CREDENTIAL = 'sig'
const MAX_COOLDOWN_MINUTES = 10_080
const MAX_GROUP_SECONDS = 3600

/** The settings of the plugin type `notification-webhook`. */
export const notificationWebhookSettings = z
  .object({
    url: urlAllowing(TEAMS_CREDENTIAL)
      .describe(
        'Write-only. Where notifications are posted: http or https, without a user name, a password, a fragment, or a parameter that is a credential (with the format `teams` it may have `sig`). An update that leaves it out keeps it; one that changes it must send the other write-only values again.',
      )
      .meta({ writeOnly: true, examples: ['https://hooks.example.com/services/T0/B0/x'] }),
    format: z
      .enum(FORMATS)
      .default('generic')
      .describe(
        'What the posts look like: `generic` is our own JSON, the schema `AlertPost`; `slack` a message of blocks for an incoming webhook; `teams` an adaptive card for a workflow.',
      )
      .meta({ examples: ['slack'] }),
    basic_username: basicUsername('basic_password'),
    basic_password: basicPassword('basic_username'),
    headers: httpHeaders
      .describe(
        'Write-only. More headers of each post; a list replaces the stored one, an empty list removes it.',
      )
      .meta({ examples: [[{ name: 'X-Team', value: 'operations' }]] }),
    signing_secret: signingSecret,
    min_severity: z
      .enum(SEVERITIES)
      .default('warning')
      .describe(
        'Alerts below this severity are left out. A change counts for what is raised after it, without a restart.',
      )
      .meta({ examples: ['critical'] }),
    codes: z
      .array(z.enum(ALERT_CODES))
      .max(ALERT_CODES.length)
      .refine((codes) => new Set(codes).size === codes.length, { error: 'must name each code once' })
      .default([])
      .describe(
        'The codes of the alerts that are posted; an empty list is all of them. A change counts for what is raised after it, without a restart.',
      )
      .meta({ uniqueItems: true, examples: [['plugin_failed', 'delivery_stalled']] }),
    cooldown_minutes: z
      .int()
      .min(0)
      .max(MAX_COOLDOWN_MINUTES)
      .default(15)
      .describe(
        'Minutes after a post to this `url` in which an alert with the same `dedupe_key` is left out; 0 for none. With a cooldown a group tells each key once too.',
      )
      .meta({ examples: [15] }),
    group_seconds: z
      .int()
      .min(0)
      .max(MAX_GROUP_SECONDS)
      .default(0)
      .describe(
        'Seconds from an alert in which others may follow and share its post; 0 for one post an alert. A post lists twenty of its alerts, the worst first, and says how many it stands for.',
      )
      .meta({ examples: [30] }),
    ...retrySettings,
    retry_max_attempts: retrySettings.retry_max_attempts.describe(
      'Attempts before a post, and with it its alerts, is failed. A test has one.',
    ),
  })
  .superRefine((settings, context) => {
    checkAddress(settings, context)
    checkRetryWaits(settings, context)
    checkBasicPair(settings, context, 'basic_username', 'basic_password')
    const reserved = settings.basic_username === '' ? [] : ['authorization']
    checkHeaders(settings, context, 'headers', [...SIGNATURE_HEADERS, ...reserved])
  })
  .describe(
    'Posts alerts to a webhook, one post after the other. Any answer of 2xx is a success; other 4xx than 408, 425 and 429, and redirects, fail at once; the rest is repeated after growing waits, or later when the header Retry-After says so (of a day at most). After a failure nothing but tests is posted for `retry_initial_seconds`, or as long as Retry-After says; then other alerts are, however far off a repeat is. A start, and any post that arrives, a test too, has what waits repeated at once. Alerts that are raised while the instance is stopped wait for it.',
  )

export type NotificationWebhookSettings = z.output<typeof notificationWebhookSettings>

function checkAddress(
  { url, format }: { readonly url: string; readonly format: Format },
  context: z.RefinementCtx,
): void {
  const refusal = format === 'teams' ? null : refusalOfUrl(url)
  if (refusal !== null) context.addIssue({ code: 'custom', path: ['url'], message: refusal })
}
