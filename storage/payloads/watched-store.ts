import { isStoreUnavailable } from '../storage-error.ts'
import type { PayloadStore } from './store.ts'

/** A store that tells whenever a write failed because of the store itself: who looks after it need not ask it often. */
export interface WatchedStore extends PayloadStore {
  readonly onUnavailable: (listener: () => void) => void
}

export function watchedStore(store: PayloadStore): WatchedStore {
  const listeners: (() => void)[] = []
  const told = async <T>(write: Promise<T>): Promise<T> => {
    try {
      return await write
    } catch (error) {
      if (isStoreUnavailable(error)) for (const listener of listeners) listener()
      throw error
    }
  }
  return {
    place: store.place,
    earlierPlaces: store.earlierPlaces,
    checkedForMs: store.checkedForMs,
    put: (...call) => told(store.put(...call)),
    putMany: (...call) => told(store.putMany(...call)),
    open: (...call) => store.open(...call),
    delete: (...call) => store.delete(...call),
    check: (...call) => store.check(...call),
    messageIds: () => store.messageIds(),
    unfinished: () => store.unfinished(),
    discard: (...call) => store.discard(...call),
    close: () => store.close(),
    onUnavailable: (listener) => void listeners.push(listener),
  }
}
