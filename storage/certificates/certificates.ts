import { LockMode, type FilterQuery } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { RecordEvents } from '../records/record-events.ts'
import { refuseWhileUsed } from '../records/record-users.ts'
import { anywhere } from '../records/search.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import {
  CertificateEntity,
  DAY_MS,
  EXPIRING_DAYS,
  type Certificate,
  type CertificateState,
  type CertificateValues,
} from './certificate.ts'
import { certificateEvents, namedValues, subjectOf } from './events.ts'
import { USERS_OF_CERTIFICATE } from './in-use.ts'
import type { NewCertificate } from './new-certificate.ts'
import { certificateValues, refuseStored } from './new-certificate.ts'

export interface CertificateFilter extends PageRequest {
  /** Text in description, common name, subject, issuer or serial number, or the start of the fingerprint. */
  readonly q: string | undefined
  readonly status: CertificateState | undefined
  readonly key: 'present' | 'absent' | undefined
}

export interface CertificatesOptions {
  readonly orm: MikroORM
  readonly box: SecretBox
  readonly clock: Clock
  readonly audit: AuditLog
}

/** The certificates. Every method throws a WaybillError for what it refuses. */
export class Certificates {
  readonly #orm: MikroORM
  readonly #box: SecretBox
  readonly #clock: Clock
  readonly #events: RecordEvents

  constructor(options: CertificatesOptions) {
    this.#orm = options.orm
    this.#box = options.box
    this.#clock = options.clock
    this.#events = certificateEvents(options.audit)
  }

  /** Oldest first. */
  async list(filter: CertificateFilter): Promise<Page<Certificate>> {
    const { limit, offset } = filter
    const conditions = [
      searchCondition(filter.q),
      stateCondition(filter.status, this.#clock.now()),
      keyCondition(filter.key),
    ]
    const where = { $and: conditions.filter((condition) => condition !== null) }
    return this.#page(where, { limit, offset, orderBy: { id: 'asc' } })
  }

  /** Those that have expired or will within so many days, soonest first. */
  async expiring(days: number, page: PageRequest): Promise<Page<Certificate>> {
    const { limit, offset } = page
    // A bound beyond what a date can hold means all of them.
    const until = new Date(Math.min(this.#clock.now().getTime() + days * DAY_MS, LATEST_MS))
    const orderBy = { not_after: 'asc', id: 'asc' } as const
    return this.#page({ not_after: { $lte: until } }, { limit, offset, orderBy })
  }

  async get(id: number): Promise<Certificate> {
    return found(await this.#orm.em.fork().findOne(CertificateEntity, { id }))
  }

  /** Throws a CERTIFICATE_EXISTS for one that is stored. */
  async refuseStored(fingerprintSha256: string): Promise<void> {
    await refuseStored(this.#orm.em.fork(), [fingerprintSha256])
  }

  async store(certificate: NewCertificate, caller: Caller): Promise<Certificate> {
    const storing = this.#orm.em.fork().transactional(async (em) => {
      const stored = em.create(CertificateEntity, certificateValues(certificate, this.#box))
      await em.flush()
      await this.#events.created({ em, caller }, subjectOf(stored), namedValues(stored))
      return stored
    })
    return storing.catch(async (thrown: unknown) => {
      // Another upload of the same certificate may have come first.
      await this.refuseStored(certificate.found.facts.fingerprint_sha256)
      throw thrown
    })
  }

  async update(id: number, change: Change<CertificateValues>, caller: Caller): Promise<Certificate> {
    return this.#orm.em.fork().transactional(async (em) => {
      const certificate = await locked(em, id)
      const before = { description: certificate.description }
      const next = change.applyTo(before)
      Object.assign(certificate, next)
      await this.#events.updated({ em, caller }, subjectOf(certificate), this.#events.changes(before, next))
      return certificate
    })
  }

  async delete(id: number, caller: Caller): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      const certificate = await locked(em, id)
      await refuseWhileUsed(
        em,
        { code: 'CERTIFICATE_IN_USE', subject: `The certificate ${certificate.common_name}` },
        { query: USERS_OF_CERTIFICATE, values: [id] },
      )
      em.remove(certificate)
      await this.#events.deleted({ em, caller }, subjectOf(certificate), namedValues(certificate))
    })
  }

  async #page(
    where: FilterQuery<Certificate>,
    options: PageRequest & { orderBy: object },
  ): Promise<Page<Certificate>> {
    const [items, total] = await this.#orm.em.fork().findAndCount(CertificateEntity, where, options)
    return { items, total }
  }
}

/** The last time that JavaScript's Date and PostgreSQL both know. */
const LATEST_MS = Date.UTC(9999, 11, 31)
/** A shorter start of a fingerprint would find certificates by accident. */
const FINGERPRINT_START = /^[0-9a-f]{4,64}$/

function searchCondition(q: string | undefined): FilterQuery<Certificate> | null {
  if (q === undefined) return null
  const pattern = { $ilike: anywhere(q) }
  const hex = q.replaceAll(/[:\s]/g, '').toLowerCase()
  const texts = (['description', 'common_name', 'subject', 'issuer', 'serial_number'] as const).map(
    (property) => ({
      [property]: pattern,
    }),
  )
  return {
    $or: FINGERPRINT_START.test(hex) ? [...texts, { fingerprint_sha256: { $like: `${hex}%` } }] : texts,
  }
}

function stateCondition(state: CertificateState | undefined, now: Date): FilterQuery<Certificate> | null {
  const soon = new Date(now.getTime() + EXPIRING_DAYS * DAY_MS)
  const conditions = {
    expired: { not_after: { $lte: now } },
    expiring: { not_after: { $gt: now, $lte: soon } },
    valid: { not_after: { $gt: soon } },
  } satisfies Record<CertificateState, FilterQuery<Certificate>>
  return state === undefined ? null : conditions[state]
}

function keyCondition(key: CertificateFilter['key']): FilterQuery<Certificate> | null {
  if (key === undefined) return null
  return { private_key: key === 'present' ? { $ne: null } : null }
}

/** A profile that is being saved holds a share of this lock through its foreign key. */
async function locked(em: EntityManager, id: number): Promise<Certificate> {
  return found(await em.findOne(CertificateEntity, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE }))
}

function found(certificate: Certificate | null): Certificate {
  if (certificate === null) throw new WaybillError('NOT_FOUND', 'Certificate not found')
  return certificate
}
