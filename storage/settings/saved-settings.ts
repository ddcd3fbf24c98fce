import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { RecordEvents, type EventSubject } from '../records/record-events.ts'
import { SettingsEntity, valuesOf, type SettingsValues, type StoredSettings } from './settings.ts'

/** The settings as they are saved; the process may still run with those of its start. */
export class SavedSettings {
  readonly #orm: MikroORM
  readonly #events: RecordEvents

  constructor({ orm, audit }: { readonly orm: MikroORM; readonly audit: AuditLog }) {
    this.#orm = orm
    this.#events = new RecordEvents({ audit, kind: 'settings' })
  }

  get(): Promise<StoredSettings> {
    return theRecord(this.#orm.em.fork())
  }

  /** Throws a validation failure when the settings would not be valid as a whole. */
  async update(change: Change<SettingsValues>, caller: Caller): Promise<StoredSettings> {
    return this.#orm.em.fork().transactional(async (em) => {
      const stored = await theRecord(em, LockMode.PESSIMISTIC_WRITE)
      const before = valuesOf(stored)
      const next = change.applyTo(before)
      Object.assign(stored, next)
      await this.#events.updated({ em, caller }, THE_SETTINGS, this.#events.changes(before, next))
      return stored
    })
  }
}

/** There is one record, without an id. */
const THE_SETTINGS: EventSubject = { id: null, name: 'settings' }

/** A migration made it, and nothing removes it. */
function theRecord(em: EntityManager, lockMode: LockMode = LockMode.NONE): Promise<StoredSettings> {
  return em.findOneOrFail(SettingsEntity, { only_record: true }, { lockMode })
}
