import { LockMode, type EntitySchema, type FilterQuery, type RequiredEntityData } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { checkedWithReferences } from '../../runtime/endpoint/validation.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { AuditKind } from '../audit/kinds.ts'
import type { PartyEntity } from '../parties/party.ts'
import { refusingViolations } from '../records/constraint.ts'
import { RecordEvents, type EventSubject } from '../records/record-events.ts'
import { RecordTable } from '../records/record-table.ts'
import { referencesIn, refusalsOfCertificates, type CertificateUse } from './certificate-references.ts'

type Unchecked = Readonly<Record<string, unknown>>

/** In what the profiles of organizations and those of partners differ. */
export interface ProfileKind<Stored extends object, Values extends { readonly as2id: string }> {
  readonly entity: EntitySchema<Stored>
  readonly table: string
  readonly auditKind: AuditKind
  /** The properties that are write-only. */
  readonly secrets: readonly (keyof Values & string)[]
  /** The property that is the party's id and the profile's own. */
  readonly link: keyof Stored & keyof Values & string
  readonly party: { readonly entity: PartyEntity; readonly noun: 'organization' | 'partner' }
  /** The properties that refer to certificates, and what for; the values may be unchecked. */
  readonly certificates: (values: Unchecked) => Readonly<Record<string, CertificateUse>>
  readonly seal: (values: Values) => Partial<Stored>
  readonly open: (stored: Stored) => Values
  /** What a change leaves out and, for what the record was before, must send. */
  readonly refusalsOfChange: (change: Change<Values>, stored: Values) => Readonly<Record<string, string>>
}

export interface ProfilesOptions {
  readonly orm: MikroORM
  readonly audit: AuditLog
}

/** The AS2 profiles of organizations or of partners. Every method throws a WaybillError for what it refuses. */
export class Profiles<Stored extends object, Values extends { readonly as2id: string }> {
  readonly #orm: MikroORM
  readonly #kind: ProfileKind<Stored, Values>
  readonly #table: RecordTable<Stored>
  readonly #events: RecordEvents

  constructor({ orm, audit }: ProfilesOptions, kind: ProfileKind<Stored, Values>) {
    this.#orm = orm
    this.#kind = kind
    this.#table = new RecordTable(orm, kind.entity)
    this.#events = new RecordEvents({ audit, kind: kind.auditKind, secret: kind.secrets })
  }

  /** By the party's id. */
  async list({ limit, offset }: PageRequest): Promise<Page<Stored>> {
    return this.#table.page({ orderBy: this.#kind.link, limit, offset })
  }

  async get(partyId: number): Promise<Stored> {
    return found(await this.#table.get(partyId))
  }

  async create(values: Values, caller: Caller): Promise<Stored> {
    const { entity, link, seal } = this.#kind
    return this.#orm.em.fork().transactional(async (em) => {
      refuseAny(await this.#refusals(em, values))
      const partyId = Number(values[link])
      if ((await em.count(entity, this.#where(partyId))) > 0) throw this.#exists()
      const profile = em.create<Stored>(entity, seal(values) as unknown as RequiredEntityData<Stored>)
      await this.#save(em)
      await this.#events.created({ em, caller }, await this.#subject(em, partyId), values)
      return profile
    })
  }

  async update(partyId: number, change: Change<Values>, caller: Caller): Promise<Stored> {
    const { open, seal, refusalsOfChange } = this.#kind
    return this.#orm.em.fork().transactional(async (em) => {
      const profile = await this.#locked(em, partyId)
      const stored = open(profile)
      const refusals = async (values: Unchecked) => ({
        ...refusalsOfChange(change, stored),
        ...(await this.#refusals(em, values)),
      })
      const next = await checkedWithReferences(
        () => change.applyTo(stored),
        () => refusals({ ...stored, ...change.unchecked }),
      )
      refuseAny(await refusals(next))
      const changes = this.#events.changes(stored, next)
      // Sealed anew, a secret that stays would look like another one.
      if (changes.length === 0) return profile
      Object.assign(profile, seal(next))
      await this.#save(em)
      await this.#events.updated({ em, caller }, await this.#subject(em, partyId), changes)
      return profile
    })
  }

  /** What an unchecked body refers to and is not there, by property. */
  async refusalsOfReferences(body: Unchecked): Promise<Record<string, string>> {
    return this.#orm.em.fork().transactional((em) => this.#refusals(em, body))
  }

  async delete(partyId: number, caller: Caller): Promise<void> {
    await this.#orm.em.fork().transactional(async (em) => {
      const profile = await this.#locked(em, partyId)
      const subject = await this.#subject(em, partyId)
      em.remove(profile)
      await this.#events.deleted({ em, caller }, subject, this.#lastValues(profile))
    })
  }

  /** Secrets that are damaged must not keep a profile from being deleted. */
  #lastValues(profile: Stored): Unchecked {
    try {
      return Object.fromEntries(Object.entries(this.#kind.open(profile)))
    } catch {
      return Object.fromEntries(Object.entries(profile))
    }
  }

  /** A profile is known by its party. */
  async #subject(em: EntityManager, partyId: number): Promise<EventSubject> {
    const { name } = await em.findOneOrFail(this.#kind.party.entity, { id: partyId })
    return { id: partyId, name }
  }

  /** The values may be unchecked; those that can be no reference are passed over. */
  async #refusals(em: EntityManager, values: Unchecked): Promise<Record<string, string>> {
    const { entity, link, party, certificates } = this.#kind
    const { [link]: id } = referencesIn(values, [link])
    const { as2id } = values
    const lock = { lockMode: LockMode.PESSIMISTIC_READ } as const
    const details: Record<string, string> = {}
    if (id !== undefined && (await em.findOne(party.entity, { id }, lock)) === null) {
      details[link] = `there is no ${party.noun} ${id}`
    }
    const others = { as2id, ...(id === undefined ? {} : { [link]: { $ne: id } }) }
    if (typeof as2id === 'string' && (await em.count(entity, others as FilterQuery<NoInfer<Stored>>)) > 0) {
      Object.assign(details, this.#taken())
    }
    return { ...details, ...(await refusalsOfCertificates(em, values, certificates(values))) }
  }

  async #save(em: EntityManager): Promise<void> {
    const { table } = this.#kind
    await refusingViolations(
      {
        [`${table}_pkey`]: () => this.#exists(),
        [`${table}_as2id_key`]: () => validationFailure(this.#taken()),
      },
      () => em.flush(),
    )
  }

  async #locked(em: EntityManager, partyId: number): Promise<Stored> {
    const lock = { lockMode: LockMode.PESSIMISTIC_WRITE } as const
    return found(await em.findOne<Stored>(this.#kind.entity, this.#where(partyId), lock))
  }

  #where(partyId: number): FilterQuery<NoInfer<Stored>> {
    return { [this.#kind.link]: partyId } as FilterQuery<NoInfer<Stored>>
  }

  #exists(): WaybillError {
    return new WaybillError('CONFLICT', `The ${this.#kind.party.noun} has an AS2 profile already`)
  }

  #taken(): Record<string, string> {
    return { as2id: `is the identifier of another ${this.#kind.party.noun}` }
  }
}

function refuseAny(details: Readonly<Record<string, string>>): void {
  if (Object.keys(details).length > 0) throw validationFailure(details)
}

function found<T>(profile: T | null): T {
  if (profile === null) throw new WaybillError('NOT_FOUND', 'AS2 profile not found')
  return profile
}
