import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import { refusingViolations } from '../records/constraint.ts'
import { refuseSecretsOfOtherUrl } from '../secrets/kept-secrets.ts'
import { PartnerEntity } from '../parties/party.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import { referencesIn, refusalsOfCertificates } from './certificate-references.ts'
import {
  REMOTE_CERTIFICATE_FIELDS,
  REMOTE_SECRETS,
  RemoteProfileEntity,
  remoteProfileSchema,
  type RemoteProfile,
  type RemoteProfileValues,
} from './remote-profile.ts'
import { remoteProfileContext, type RemoteProfileSecrets } from './secrets.ts'

/** The AS2 profiles of partners. Every method throws a WaybillError for what it refuses. */
export class RemoteProfiles {
  readonly #orm: MikroORM
  readonly #box: SecretBox

  constructor(options: { readonly orm: MikroORM; readonly box: SecretBox }) {
    this.#orm = options.orm
    this.#box = options.box
  }

  /** By the partner's id. */
  async list(page: PageRequest): Promise<Page<RemoteProfile>> {
    const { limit, offset } = page
    const orderBy = { business_partner_id: 'asc' } as const
    const [items, total] = await this.#orm.em
      .fork()
      .findAndCount(RemoteProfileEntity, {}, { limit, offset, orderBy })
    return { items, total }
  }

  async get(partnerId: number): Promise<RemoteProfile> {
    return found(await this.#orm.em.fork().findOne(RemoteProfileEntity, { business_partner_id: partnerId }))
  }

  async create(values: RemoteProfileValues): Promise<RemoteProfile> {
    return this.#orm.em.fork().transactional(async (em) => {
      await accept(em, values)
      const { business_partner_id } = values
      if ((await em.count(RemoteProfileEntity, { business_partner_id })) > 0) throw exists()
      const profile = em.create(RemoteProfileEntity, this.#sealed(values))
      await save(em)
      return profile
    })
  }

  async update(partnerId: number, change: Change<RemoteProfileValues>): Promise<RemoteProfile> {
    return this.#orm.em.fork().transactional(async (em) => {
      const profile = await locked(em, partnerId)
      const stored = this.#opened(profile)
      const next = await checkedWithReferences(
        () => change.applyTo(stored),
        () => refusalsOfReferences(em, { ...stored, ...change.unchecked }),
      )
      refuseSecretsOfOtherUrl(change, stored, next, { url: 'endpoint', secrets: REMOTE_SECRETS })
      await accept(em, next)
      Object.assign(profile, this.#sealed(next))
      await save(em)
      return profile
    })
  }

  /** What an unchecked body refers to and is not there, by property. */
  async refusalsOfReferences(body: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
    return this.#orm.em.fork().transactional((em) => refusalsOfReferences(em, body))
  }

  async delete(partnerId: number): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      em.remove(await locked(em, partnerId))
    })
  }

  #sealed(values: RemoteProfileValues) {
    const { http_basic_password, http_headers, ...open } = values
    const secrets: RemoteProfileSecrets = { http_basic_password, http_headers }
    const sealed = this.#box.seal(JSON.stringify(secrets), remoteProfileContext(values.business_partner_id))
    return { ...open, secrets: sealed }
  }

  /** The stored properties as the schema knows them, secrets opened. */
  #opened(profile: RemoteProfile): RemoteProfileValues {
    const opened = this.#box.openText(profile.secrets, remoteProfileContext(profile.business_partner_id))
    const stored: Record<string, unknown> = { ...profile, ...(JSON.parse(opened) as RemoteProfileSecrets) }
    const names = Object.keys(remoteProfileSchema.shape)
    return remoteProfileSchema.parse(Object.fromEntries(names.map((name) => [name, stored[name] ?? null])))
  }
}

/** A TLS client certificate must hold a key: it proves who we are. */
const WITH_KEY = ['tls_client_certificate_id']

async function accept(em: EntityManager, values: RemoteProfileValues): Promise<void> {
  const details = await refusalsOfReferences(em, values)
  const { as2id, business_partner_id } = values
  const others = await em.count(RemoteProfileEntity, {
    as2id,
    business_partner_id: { $ne: business_partner_id },
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
  const { business_partner_id: id } = referencesIn(values, ['business_partner_id'])
  const lock = { lockMode: LockMode.PESSIMISTIC_READ } as const
  if (id !== undefined && (await em.findOne(PartnerEntity, { id }, lock)) === null)
    details['business_partner_id'] = 'there is no such partner'
  const references = referencesIn(values, REMOTE_CERTIFICATE_FIELDS)
  const encrypts = values['encryption_algorithm'] !== 'None'
  return {
    ...details,
    ...(await refusalsOfCertificates(em, references, WITH_KEY, encrypts ? ['partner_certificate_id'] : [])),
  }
}

const AS2ID_TAKEN = { as2id: 'is the identifier of another partner' }

async function save(em: EntityManager): Promise<void> {
  await refusingViolations(
    {
      as2_remote_profile_pkey: exists,
      as2_remote_profile_as2id_key: () => validationFailure(AS2ID_TAKEN),
    },
    () => em.flush(),
  )
}

async function locked(em: EntityManager, partnerId: number): Promise<RemoteProfile> {
  const where = { business_partner_id: partnerId }
  return found(await em.findOne(RemoteProfileEntity, where, { lockMode: LockMode.PESSIMISTIC_WRITE }))
}

function exists(): WaybillError {
  return new WaybillError('CONFLICT', 'The partner has an AS2 profile already')
}

function found(profile: RemoteProfile | null): RemoteProfile {
  if (profile === null) throw new WaybillError('NOT_FOUND', 'AS2 profile not found')
  return profile
}
