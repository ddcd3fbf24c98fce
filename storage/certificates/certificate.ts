import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import type { CertificateExtension } from './reading/extensions.ts'

export const CertificateEntity = defineEntity({
  name: 'Certificate',
  tableName: 'certificate',
  properties: {
    id: p.integer().primary().autoincrement(),
    description: p.text(),
    common_name: p.text(),
    subject: p.text(),
    issuer: p.text(),
    serial_number: p.text(),
    not_before: p.datetime(),
    not_after: p.datetime(),
    fingerprint_sha256: p.text(),
    fingerprint_sha1: p.text(),
    key_algorithm: p.enum(['RSA', 'EC', 'Ed25519'] as const),
    key_size: p.integer(),
    signature_algorithm: p.text(),
    is_ca: p.boolean(),
    extensions: p.json<readonly CertificateExtension[]>(),
    der: p.blob(),
    /** Sealed PKCS#8 DER. */
    private_key: p.text().nullable(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type Certificate = InferEntity<typeof CertificateEntity>

/** The only property that can be changed. */
export const certificateSchema = z.strictObject({
  description: z
    .string()
    .max(500)
    .default('')
    .describe('Text for people. The only property that can be changed.'),
})

export type CertificateValues = z.output<typeof certificateSchema>

export const CERTIFICATE_STATES = ['valid', 'expiring', 'expired'] as const
export type CertificateState = (typeof CERTIFICATE_STATES)[number]

/** A certificate is expiring within so many days of its end (specification, 2.4). */
export const EXPIRING_DAYS = 30
export const DAY_MS = 86_400_000

export function stateOf(notAfter: Date, now: Date): CertificateState {
  const leftMs = notAfter.getTime() - now.getTime()
  if (leftMs <= 0) return 'expired'
  return leftMs <= EXPIRING_DAYS * DAY_MS ? 'expiring' : 'valid'
}

/** Whole days of validity that are left, 0 for an expired certificate. */
export function daysRemaining(notAfter: Date, now: Date): number {
  return Math.max(0, Math.floor((notAfter.getTime() - now.getTime()) / DAY_MS))
}
