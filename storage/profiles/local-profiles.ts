import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import { refusingViolations } from '../records/constraint.ts'
import { OrganizationEntity } from '../parties/party.ts'
import { referencesIn, refusalsOfCertificates } from './certificate-references.ts'
import {
  LOCAL_CERTIFICATE_FIELDS,
  LocalProfileEntity,
  type LocalProfile,
  type LocalProfileValues,
} from './local-profile.ts'

/** The AS2 profiles of organizations. Every method throws a WaybillError for what it refuses. */
export class LocalProfiles {
  readonly #orm: MikroORM

  constructor(orm: MikroORM) {
    this.#orm = orm
  }

  /** By the organization's id. */
  async list(page: PageRequest): Promise<Page<LocalProfile>> {
    const { limit, offset } = page
    const orderBy = { local_organization_id: 'asc' } as const
    const [items, total] = await this.#orm.em
      .fork()
      .findAndCount(LocalProfileEntity, {}, { limit, offset, orderBy })
    return { items, total }
  }

  async get(organizationId: number): Promise<LocalProfile> {
    const profile = await this.#orm.em
      .fork()
      .findOne(LocalProfileEntity, { local_organization_id: organizationId })
    return found(profile)
  }

  async create(values: LocalProfileValues): Promise<LocalProfile> {
    return this.#orm.em.fork().transactional(async (em) => {
      await accept(em, values)
      const { local_organization_id } = values
      if ((await em.count(LocalProfileEntity, { local_organization_id })) > 0) throw exists()
      const profile = em.create(LocalProfileEntity, values)
      await save(em)
      return profile
    })
  }

  async update(organizationId: number, change: Change<LocalProfileValues>): Promise<LocalProfile> {
    return this.#orm.em.fork().transactional(async (em) => {
      const profile = await locked(em, organizationId)
      const stored = valuesOf(profile)
      const values = await checkedWithReferences(
        () => change.applyTo(stored),
        () => refusalsOfReferences(em, { ...stored, ...change.unchecked }),
      )
      await accept(em, values)
      Object.assign(profile, values)
      await save(em)
      return profile
    })
  }

  /** What an unchecked body refers to and is not there, by property. */
  async refusalsOfReferences(body: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
    return this.#orm.em.fork().transactional((em) => refusalsOfReferences(em, body))
  }

  async delete(organizationId: number): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      em.remove(await locked(em, organizationId))
    })
  }
}

function valuesOf(profile: LocalProfile): LocalProfileValues {
  return {
    local_organization_id: profile.local_organization_id,
    as2id: profile.as2id,
    signing_certificate_id: profile.signing_certificate_id ?? null,
    decryption_certificate_id: profile.decryption_certificate_id ?? null,
    previous_decryption_certificate_id: profile.previous_decryption_certificate_id ?? null,
  }
}

async function accept(em: EntityManager, values: LocalProfileValues): Promise<void> {
  const details = await refusalsOfReferences(em, values)
  const { as2id, local_organization_id } = values
  const others = await em.count(LocalProfileEntity, {
    as2id,
    local_organization_id: { $ne: local_organization_id },
  })
  if (others > 0) Object.assign(details, AS2ID_TAKEN)
  if (Object.keys(details).length > 0) throw validationFailure(details)
}

/** The values may be unchecked; those that can be no reference are passed over. */
async function refusalsOfReferences(
  em: EntityManager,
  values: Readonly<Record<string, unknown>>,
): Promise<Record<string, string>> {
  const details: Record<string, string> = {}
  const { local_organization_id: id } = referencesIn(values, ['local_organization_id'])
  const lock = { lockMode: LockMode.PESSIMISTIC_READ } as const
  if (id !== undefined && (await em.findOne(OrganizationEntity, { id }, lock)) === null)
    details['local_organization_id'] = 'there is no such organization'
  const references = referencesIn(values, LOCAL_CERTIFICATE_FIELDS)
  return {
    ...details,
    ...(await refusalsOfCertificates(em, references, LOCAL_CERTIFICATE_FIELDS, LOCAL_CERTIFICATE_FIELDS)),
  }
}

const AS2ID_TAKEN = { as2id: 'is the identifier of another organization' }

async function save(em: EntityManager): Promise<void> {
  await refusingViolations(
    {
      as2_local_profile_pkey: exists,
      as2_local_profile_as2id_key: () => validationFailure(AS2ID_TAKEN),
    },
    () => em.flush(),
  )
}

async function locked(em: EntityManager, organizationId: number): Promise<LocalProfile> {
  const where = { local_organization_id: organizationId }
  return found(await em.findOne(LocalProfileEntity, where, { lockMode: LockMode.PESSIMISTIC_WRITE }))
}

function exists(): WaybillError {
  return new WaybillError('CONFLICT', 'The organization has an AS2 profile already')
}

function found(profile: LocalProfile | null): LocalProfile {
  if (profile === null) throw new WaybillError('NOT_FOUND', 'AS2 profile not found')
  return profile
}
