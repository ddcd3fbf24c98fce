import type { Readable } from 'node:stream'
import type { PayloadStage } from '../exchange/states.ts'
import type { StorageSettings } from '../settings/storage-settings.ts'
import { reasonOf } from '../../runtime/errors.ts'
import { StorageError } from '../storage-error.ts'
import { connectStore, placeOf } from './connect.ts'
import type { OpenOptions, PayloadStore } from './store.ts'

/**
 * A store whose predecessors are read too: what was stored before the settings changed is found where it lies. Nothing is
 * written to them, or removed from them.
 *
 * @param earlier the latest first.
 */
export function withEarlierStores(store: PayloadStore, earlier: readonly StorageSettings[]): PayloadStore {
  if (earlier.length === 0) return store
  const stores = new EarlierStores(earlier)
  return {
    place: store.place,
    earlierPlaces: earlier.map(placeOf),
    checkedForMs: store.checkedForMs,
    put: (...call) => store.put(...call),
    putMany: (...call) => store.putMany(...call),
    open: async (...call) => (await store.open(...call)) ?? (await stores.open(...call)),
    delete: (...call) => store.delete(...call),
    check: (...call) => store.check(...call),
    messageIds: () => store.messageIds(),
    unfinished: () => store.unfinished(),
    discard: (...call) => store.discard(...call),
    close: () => {
      stores.close()
      store.close()
    },
  }
}

/** They are connected to when something is looked for in them. */
class EarlierStores {
  readonly #settings: readonly StorageSettings[]
  readonly #stores = new Map<StorageSettings, Promise<PayloadStore>>()

  constructor(settings: readonly StorageSettings[]) {
    this.#settings = settings
  }

  /** One that cannot be read does not hide the others. */
  async open(messageId: string, stage: PayloadStage, options?: OpenOptions): Promise<Readable | undefined> {
    const failures: { readonly place: string; readonly error: unknown }[] = []
    for (const settings of this.#settings) {
      try {
        const found = await (await this.#store(settings)).open(messageId, stage, options)
        if (found !== undefined) return found
      } catch (error) {
        failures.push({ place: placeOf(settings), error })
      }
    }
    const [failed] = failures
    if (failed === undefined) return undefined
    throw new StorageError(
      `The payload ${messageId}/${stage} may lie in storage that was used before, ${failed.place}: ${reasonOf(failed.error)}`,
      // Not of the present storage: nobody has to wait for it who brings something.
      { cause: failed.error, problem: 'missing' },
    )
  }

  close(): void {
    for (const store of this.#stores.values()) {
      void store.then(
        (opened) => opened.close(),
        () => undefined,
      )
    }
  }

  #store(settings: StorageSettings): Promise<PayloadStore> {
    const store = this.#stores.get(settings) ?? connectStore(settings)
    this.#stores.set(settings, store)
    return store
  }
}
