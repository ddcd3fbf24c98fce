import { LockMode, type FilterQuery } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { refuseWhileUsed } from '../records/record-users.ts'
import { anywhere } from '../records/search.ts'
import { LOCAL_CERTIFICATE_FIELDS } from '../profiles/local-profile.ts'
import { REMOTE_CERTIFICATE_FIELDS } from '../profiles/remote-profile.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import {
  CertificateEntity,
  DAY_MS,
  EXPIRING_DAYS,
  type Certificate,
  type CertificateState,
  type CertificateValues,
} from './certificate.ts'
import type { FoundMaterial } from './parse.ts'
import { privateKeyContext } from './secrets.ts'

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
}

/** The certificates. Every method throws a WaybillError for what it refuses. */
export class Certificates {
  readonly #orm: MikroORM
  readonly #box: SecretBox
  readonly #clock: Clock

  constructor(options: CertificatesOptions) {
    this.#orm = options.orm
    this.#box = options.box
    this.#clock = options.clock
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

  /** Stores the one certificate that an upload must hold, with its key when it holds one. */
  async store(material: FoundMaterial, description: string): Promise<Certificate> {
    const { certificate, key } = single(material)
    const em = this.#orm.em.fork()
    const { fingerprint_sha256 } = certificate.facts
    await refuseExisting(em, fingerprint_sha256)
    if (description === '') {
      throw validationFailure({
        description: 'is required: what the file holds is stored only with a description',
      })
    }
    const stored = em.create(CertificateEntity, {
      ...certificate.facts,
      description,
      der: certificate.der,
      private_key: key === null ? null : this.#box.seal(key.pkcs8, privateKeyContext(fingerprint_sha256)),
    })
    await em.flush().catch(async (thrown: unknown) => {
      // Another upload of the same certificate may have come first.
      await refuseExisting(this.#orm.em.fork(), fingerprint_sha256)
      throw thrown
    })
    return stored
  }

  async update(id: number, change: Change<CertificateValues>): Promise<Certificate> {
    return this.#orm.em.fork().transactional(async (em) => {
      const certificate = await locked(em, id)
      Object.assign(certificate, change.applyTo({ description: certificate.description }))
      return certificate
    })
  }

  async delete(id: number): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      const certificate = await locked(em, id)
      await refuseWhileUsed(
        em,
        { code: 'CERTIFICATE_IN_USE', subject: `The certificate ${certificate.common_name}` },
        { query: PROFILES_OF_CERTIFICATE, values: [id] },
      )
      em.remove(certificate)
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

function single(material: FoundMaterial) {
  const { certificates, keys } = material
  const [certificate] = certificates
  if (certificate === undefined) throw validationFailure({ certificate: 'the file holds no certificate' })
  if (certificates.length > 1) {
    throw validationFailure({
      certificate: `the file holds ${certificates.length} certificates: upload a single one, with its key or without`,
    })
  }
  if (keys.length > 0 && certificate.keyIndex === null) {
    throw validationFailure({ private_key: 'the private key does not belong to the certificate' })
  }
  if (keys.length > 1) {
    throw validationFailure({
      private_key: 'there is more than one private key: upload that of the certificate',
    })
  }
  return { certificate, key: keys[0] ?? null }
}

async function refuseExisting(em: EntityManager, fingerprint_sha256: string): Promise<void> {
  const existing = await em.findOne(CertificateEntity, { fingerprint_sha256 })
  if (existing === null) return
  throw new WaybillError(
    'CERTIFICATE_EXISTS',
    `The certificate is stored already as ${existing.common_name}`,
    {
      existing_id: existing.id,
    },
  )
}

/** A profile that is being saved holds a share of this lock through its foreign key. */
async function locked(em: EntityManager, id: number): Promise<Certificate> {
  return found(await em.findOne(CertificateEntity, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE }))
}

function found(certificate: Certificate | null): Certificate {
  if (certificate === null) throw new WaybillError('NOT_FOUND', 'Certificate not found')
  return certificate
}

interface ProfileTable {
  readonly kind: string
  readonly table: string
  readonly party: string
  /** The column that is the party's id and the profile's own. */
  readonly link: string
  readonly path: string
  readonly columns: readonly string[]
}

/** The profiles of one kind that refer to a certificate, with the properties in which they do. */
function profilesOf(profile: ProfileTable): string {
  const { kind, table, party, link, path, columns } = profile
  const fields = columns.map((column) => `case when r.${column} = w.id then '${column}' end`)
  return `
    select '${kind}'::text as kind, p.name, array_remove(array[${fields.join(', ')}], null) as fields,
      '${path}' || r.${link} as link
    from wanted w join ${table} r on w.id in (${columns.map((column) => `r.${column}`).join(', ')})
    join ${party} p on p.id = r.${link}`
}

/** Takes the certificate's id once. */
const PROFILES_OF_CERTIFICATE = `
  with wanted as (select ?::int as id)
  ${profilesOf({
    kind: 'as2-local-profile',
    table: 'as2_local_profile',
    party: 'organization',
    link: 'local_organization_id',
    path: '/as2/local-profiles/',
    columns: LOCAL_CERTIFICATE_FIELDS,
  })}
  union all
  ${profilesOf({
    kind: 'as2-remote-profile',
    table: 'as2_remote_profile',
    party: 'partner',
    link: 'business_partner_id',
    path: '/as2/remote-profiles/',
    columns: REMOTE_CERTIFICATE_FIELDS,
  })}
  union all
  select 'plugin-configuration', c.name, array_agg(setting.key order by setting.key), '/plugins/configs/' || c.type || '/' || c.name
  from wanted w, plugin_configuration c, jsonb_each(c.settings) as setting
  where setting.key like '%certificate\\_id' and setting.value = to_jsonb(w.id)
  group by c.type, c.name`
