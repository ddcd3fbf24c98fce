import type { AlertCode, Severity } from '../../storage/alerts/alert.ts'
import { query, type Queryable } from '../../storage/postgres/pool.ts'

/** An alert as the database raises it with an event; what is left out is of no matter to the test. */
export interface RaisedAlert {
  readonly code: AlertCode
  readonly severity: Severity
  readonly subjectName?: string
  readonly summary?: string
  readonly details?: string
  /** What repeats, after the code; default the name of the subject. */
  readonly repeats?: string
  /** Default now. */
  readonly at?: Date
}

const MESSAGE = '2f1d6b0e-8c1a-4b52-9d0f-6a3d1f5a7c21'

/** Raises an alert about a message that there need not be. */
export async function raiseAlert(on: Queryable, alert: RaisedAlert): Promise<void> {
  const { code, severity, subjectName = 'invoice.edi', repeats = subjectName, at = new Date() } = alert
  const { summary = `Something has happened to ${subjectName}`, details = 'Reason: a test' } = alert
  await query(on, `select raise_alert($1, $2, 'message', $3, $4, $5, $6, $7, $8, $9)`, [
    severity,
    code,
    MESSAGE,
    subjectName,
    summary,
    details,
    repeats,
    `/api/v1/messages/${MESSAGE}`,
    at,
  ])
}
