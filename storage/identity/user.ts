import { defineEntity, p, type InferEntity } from '@mikro-orm/core'
import { z } from 'zod'
import { oidcSubject } from './service-account.ts'

/** A person. Users are managed with the command line; no endpoint knows them. */
export const UserEntity = defineEntity({
  name: 'User',
  tableName: 'user_account',
  properties: {
    id: p.integer().primary().autoincrement(),
    name: p.text(),
    enabled: p.boolean(),
    /** The identity at a provider; empty for none. */
    oidc_issuer: p.text(),
    oidc_subject: p.text(),
    /** As hashPassword wrote it; null for none. */
    password: p.text().nullable(),
    created_at: p.datetime().onCreate(() => new Date()),
    updated_at: p
      .datetime()
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
})

export type User = InferEntity<typeof UserEntity>

/** Callers that are no user. A log that names one of them must mean no person. */
const RESERVED = ['system', 'developer', 'anonymous']

export const userName = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[a-z0-9._@+-]*$/, { error: 'may have lower case letters, digits and . _ @ + - only' })
  .refine((name) => !RESERVED.includes(name), { error: `must not be one of ${RESERVED.join(', ')}` })

export const userSubject = oidcSubject
  .min(1)
  .refine((subject) => !RESERVED.includes(subject) && !subject.startsWith('sa:'), {
    error: `must not be one of ${RESERVED.join(', ')} or begin with sa:`,
  })

/** As requests, history and logs name a user: the subject of the identity, or the name of a user without one. */
export function subjectOf({ name, oidc_subject }: Pick<User, 'name' | 'oidc_subject'>): string {
  return oidc_subject === '' ? name : oidc_subject
}
