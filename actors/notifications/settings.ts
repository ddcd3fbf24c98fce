import { z } from 'zod'
import { basicPassword, basicUsername, checkBasicPair } from '../../runtime/endpoint/basic-credentials.ts'
import { httpHeaders } from '../../runtime/endpoint/http-headers.ts'
import { targetUrl } from '../../runtime/endpoint/target-url.ts'
import { checkRetryWaits, retrySettings } from '../../storage/plugins/target-settings.ts'
import { checkHeaders } from '../http/credentials.ts'
import { SIGNATURE_HEADERS, signingSecret } from '../http/signature.ts'

const SEVERITIES = ['info', 'warning', 'critical'] as const

/** What can be alerted (specification, 6.2, and the decisions on it). */
const ALERT_CODES = [
  'plugin_failed',
  'delivery_stalled',
  'delivery_failed',
  'message_refused',
  'receipt_overdue',
  'certificate_expiring',
  'certificate_expired',
  'storage_failed',
] as const

const MAX_COOLDOWN_MINUTES = 10_080
const MAX_GROUP_SECONDS = 3600

/** The settings of the plugin type `notification-webhook`. */
export const notificationWebhookSettings = z
  .object({
    url: targetUrl
      .describe(
        'Write-only. Where notifications are posted: http or https, without a user name, a password, a fragment, or a parameter that is a credential. An update that leaves it out keeps it; one that changes it must send the other write-only values again.',
      )
      .meta({ writeOnly: true, examples: ['https://hooks.example.com/services/T0/B0/x'] }),
    format: z
      .enum(['generic', 'slack', 'teams'])
      .default('generic')
      .describe('What the posts look like: our own JSON, or that of a chat service.')
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
      .describe('Alerts below this severity are left out.')
      .meta({ examples: ['critical'] }),
    codes: z
      .array(z.enum(ALERT_CODES))
      .max(ALERT_CODES.length)
      .refine((codes) => new Set(codes).size === codes.length, { error: 'must name each code once' })
      .default([])
      .describe('The codes of the alerts that are posted; an empty list is all of them.')
      .meta({ uniqueItems: true, examples: [['plugin_failed', 'delivery_stalled']] }),
    cooldown_minutes: z
      .int()
      .min(0)
      .max(MAX_COOLDOWN_MINUTES)
      .default(15)
      .describe(
        'Minutes after a post in which an alert of the same subject and code is left out; 0 for none.',
      )
      .meta({ examples: [15] }),
    group_seconds: z
      .int()
      .min(0)
      .max(MAX_GROUP_SECONDS)
      .default(0)
      .describe('Seconds to wait for more alerts, which then share one post; 0 for one post an alert.')
      .meta({ examples: [30] }),
    ...retrySettings,
  })
  .superRefine((settings, context) => {
    checkRetryWaits(settings, context)
    checkBasicPair(settings, context, 'basic_username', 'basic_password')
    const reserved = settings.basic_username === '' ? [] : ['authorization']
    checkHeaders(settings, context, 'headers', [...SIGNATURE_HEADERS, ...reserved])
  })
  .describe('Posts alerts to a webhook. This version keeps the configuration and sends no notifications yet.')
