import type { FieldChange } from './changes.ts'
import type { AuditAction, AuditKind } from './kinds.ts'

/** What has happened, as whoever did it tells the log. */
export interface NewAuditEvent {
  readonly action: AuditAction
  readonly kind: AuditKind
  /** As the kind's records are known (kinds.ts); null where there is one record or none. */
  readonly recordId: string | number | null
  /** The record's name at this moment. */
  readonly recordName: string
  readonly changes: readonly FieldChange[]
}
