import type { AuditLog } from '../audit/audit-log.ts'
import { RecordEvents, type EventSubject } from '../records/record-events.ts'
import type { Certificate } from './certificate.ts'

/** How the audit log tells of certificates. */

export function certificateEvents(audit: AuditLog): RecordEvents {
  return new RecordEvents({ audit, kind: 'certificate', secret: ['private_key'] })
}

/** What tells one certificate from another; the rest is in the certificate itself. */
export function namedValues(certificate: Certificate) {
  const { description, subject, issuer, serial_number, not_before, not_after } = certificate
  return {
    description,
    subject,
    issuer,
    serial_number,
    not_before: not_before.toISOString(),
    not_after: not_after.toISOString(),
    fingerprint_sha256: certificate.fingerprint_sha256,
    private_key: certificate.private_key ?? null,
  }
}

/** The common name, or else the first of what can stand for it. */
export function subjectOf(certificate: Certificate): EventSubject {
  const { id, common_name, description, fingerprint_sha256 } = certificate
  return { id, name: common_name || description || fingerprint_sha256 }
}
