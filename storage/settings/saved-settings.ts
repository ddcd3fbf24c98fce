import { LockMode } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Change } from '../../runtime/endpoint/record-rules.ts'
import { SettingsEntity, valuesOf, type SettingsValues, type StoredSettings } from './settings.ts'

/** The settings as they are saved; the process may still run with those of its start. */
export class SavedSettings {
  readonly #orm: MikroORM

  constructor(orm: MikroORM) {
    this.#orm = orm
  }

  get(): Promise<StoredSettings> {
    return theRecord(this.#orm.em.fork())
  }

  /** Throws a validation failure when the settings would not be valid as a whole. */
  async update(change: Change<SettingsValues>): Promise<StoredSettings> {
    return this.#orm.em.fork().transactional(async (em) => {
      const stored = await theRecord(em, LockMode.PESSIMISTIC_WRITE)
      Object.assign(stored, change.applyTo(valuesOf(stored)))
      await em.flush()
      return stored
    })
  }
}

/** A migration made it, and nothing removes it. */
function theRecord(em: EntityManager, lockMode: LockMode = LockMode.NONE): Promise<StoredSettings> {
  return em.findOneOrFail(SettingsEntity, { only_record: true }, { lockMode })
}
