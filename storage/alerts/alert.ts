/** What an operator is told: one event that needs somebody, in the words of the specification (2.14 and 6.2). */

export const SEVERITIES = ['info', 'warning', 'critical'] as const

export type Severity = (typeof SEVERITIES)[number]

/** What can be alerted; a notifier may be limited to some of them. */
export const ALERT_CODES = [
  'plugin_failed',
  'delivery_stalled',
  'delivery_failed',
  'message_refused',
  'receipt_overdue',
  'certificate_expiring',
  'certificate_expired',
  'storage_failed',
] as const

export type AlertCode = (typeof ALERT_CODES)[number]

/** The code of what is sent only to try a notifier out. */
export const TEST_CODE = 'test'

/** What an alert is about. */
export const SUBJECT_KINDS = ['message', 'plugin', 'certificate', 'storage'] as const

export type SubjectKind = (typeof SUBJECT_KINDS)[number]

export interface Alert {
  readonly id: number
  readonly alert_time: Date
  readonly severity: Severity
  readonly code: AlertCode | typeof TEST_CODE
  readonly subject_kind: SubjectKind
  readonly subject_id: string
  /** What the subject is called; of a message its file name, or its id. */
  readonly subject_name: string
  /** One sentence of at most 200 characters, on one line. */
  readonly summary: string
  /** The reason and the facts, a line each; at most 2,000 characters. */
  readonly details: string
  /** Names what repeats: alerts with the same key are told once within a notifier's cooldown. */
  readonly dedupe_key: string
  /** Where the subject is looked at, below the service's public URL; null where there is no such place. */
  readonly link_path: string | null
  readonly test: boolean
}

/** The columns of an `Alert`, of the row `a`. */
export const ALERT_COLUMNS = `a.id, a.alert_time, a.severity, a.code, a.subject_kind, a.subject_id, a.subject_name,
  a.summary, a.details, a.dedupe_key, a.link_path, a.test`
