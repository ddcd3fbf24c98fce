import type { Alert } from '../../../storage/alerts/alert.ts'
import { linkOf } from '../../../storage/alerts/link.ts'
import type { PostFacts } from './post-facts.ts'
import { cut, line, lines } from './text.ts'

/** How alerts are put into words where people read them. */

const SIGNS = { info: '🔵', warning: '🟠', critical: '🔴' } as const

/** A name may be as long as a path; a chat needs less of it. */
const MAX_NAME_LENGTH = 200
const MAX_SUMMARY_LENGTH = 300
/** The reason of each alert of a group: enough to know whether to get up, and short enough for twenty of them. */
const MAX_REASON_LENGTH = 200

/** What a post tells before anything else, such as `🔴 Critical: delivery failed` or `🔴 Critical: 27 alerts`. */
export function titleOf({ alerts, count, severity, test }: PostFacts): string {
  const [first] = alerts
  if (first === undefined) return 'Alerts'
  if (test) return `${SIGNS[first.severity]} Test notification`
  const what = count > 1 ? `${count} alerts` : codeInWords(first)
  return `${SIGNS[severity]} ${capitalised(severity)}: ${what}`
}

/** `delivery_failed` as `delivery failed`. */
export function codeInWords({ code }: Pick<Alert, 'code'>): string {
  return code.replaceAll('_', ' ')
}

export function signOf({ severity }: Pick<Alert, 'severity'>): string {
  return SIGNS[severity]
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

export function summaryOf(alert: Pick<Alert, 'summary' | 'code'>): string {
  return cut(line(alert.summary), MAX_SUMMARY_LENGTH) || capitalised(codeInWords(alert))
}

/** The first line of the details, which is the reason where there is one; empty when there are none. */
export function reasonOf({ details }: Pick<Alert, 'details'>, maxLength = MAX_REASON_LENGTH): string {
  return cut(lines(details)[0]?.trim() ?? '', maxLength)
}

/** `message invoice.edi`. */
function subjectOf({ subject_kind, subject_name, subject_id }: Alert): string {
  return `${line(subject_kind)} ${cut(line(subject_name) || line(subject_id), MAX_NAME_LENGTH)}`
}

/** Its kind and subject, when it was, and who tells it: `delivery failed · message invoice.edi · 2026-11-22T… · night`. */
export function originOf(alert: Alert, { notifier }: Pick<PostFacts, 'notifier'>): string {
  return [codeInWords(alert), subjectOf(alert), alert.alert_time.toISOString(), line(notifier)].join(' · ')
}

/** Links lead into the API: a browser that has no token is refused, which is better known before. */
const WITH_TOKEN = '(with an API token)'

/** What stands on the link to the subject. */
export function linkLabelOf({ subject_kind }: Pick<Alert, 'subject_kind'>): string {
  return `Open the ${line(subject_kind)} ${WITH_TOKEN}`
}

/** Of a group, where one link says for all what they need. */
export function shortLinkLabelOf({ subject_kind }: Pick<Alert, 'subject_kind'>): string {
  return `Open the ${line(subject_kind)}`
}

/** How many alerts a post stands for and does not list, in words; null for none. */
export function restInWords(count: number, listed: number): string | null {
  const rest = count - listed
  return rest <= 0 ? null : `and ${rest} more ${rest === 1 ? 'alert' : 'alerts'}, see the notification log`
}

/** What stands on the link to the log. */
export const LOG_LABEL = `Open the notification log ${WITH_TOKEN}`

/** Where the log of a notifier is read: what it was told, and what its posts do not list. */
export function logLinkOf({ notifier, publicUrl }: Pick<PostFacts, 'notifier' | 'publicUrl'>): string {
  return linkOf(publicUrl, `/api/v1/notifications?instance=${encodeURIComponent(notifier)}`)
}
