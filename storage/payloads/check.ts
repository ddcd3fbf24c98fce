import { randomBytes, randomUUID } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { CheckStep, PayloadStore, StoreCheck } from './store.ts'
import { problemOf } from './problem.ts'

const PROBE_BYTES = 1024

/**
 * Stores a probe of its own message id, reads it back, compares and deletes it; names the step that fails.
 *
 * @param began is told each step before it is taken, so that a step that never ends can be named too.
 */
export async function checkStore(
  store: PayloadStore,
  began: (step: CheckStep) => void = () => undefined,
): Promise<StoreCheck> {
  const messageId = randomUUID()
  const probe = randomBytes(PROBE_BYTES)
  let step: CheckStep = 'write'
  const begin = (next: CheckStep): void => {
    step = next
    began(next)
  }
  try {
    begin('write')
    await store.put(messageId, 'unpacked', probe)
    begin('read')
    const stream = await store.open(messageId, 'unpacked')
    const found = stream === undefined ? undefined : await buffer(stream)
    begin('compare')
    if (found === undefined || !probe.equals(found)) {
      await removeWhatIsLeft(store, messageId)
      return { ok: false, step, problem: 'The probe came back with other bytes' }
    }
    begin('delete')
    await store.delete(messageId)
    return { ok: true }
  } catch (thrown) {
    await removeWhatIsLeft(store, messageId)
    return { ok: false, step, problem: problemOf(thrown) }
  }
}

/** A write that failed may have begun. */
async function removeWhatIsLeft(store: PayloadStore, messageId: string): Promise<void> {
  await store.delete(messageId).catch(() => undefined)
}
