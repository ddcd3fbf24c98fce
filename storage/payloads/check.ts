import { randomBytes, randomUUID } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { PayloadStage } from '../exchange/states.ts'
import type { CheckStep, PayloadStore, StoreCheck } from './store.ts'
import { kindOf, problemOf } from './problem.ts'

const PROBE_BYTES = 1024
const STAGE: PayloadStage = 'unpacked'

/** Removes the probe. */
type Remove = (messageId: string, stage: PayloadStage) => Promise<void>

/**
 * Stores a probe of its own message id, reads it back, compares and deletes it; names the step that fails.
 *
 * @param began is told each step before it is taken, so that a step that never ends can be named too.
 * @param remove for a store that deletes one stage at less cost than a message.
 */
export async function checkStore(
  store: PayloadStore,
  began: (step: CheckStep) => void = () => undefined,
  remove: Remove = (messageId) => store.delete(messageId),
): Promise<StoreCheck> {
  const messageId = randomUUID()
  const probe = randomBytes(PROBE_BYTES)
  let step: CheckStep = 'write'
  /** A write that failed may have begun. */
  const removeWhatIsLeft = (): Promise<void> => remove(messageId, STAGE).catch(() => undefined)
  const begin = (next: CheckStep): void => {
    step = next
    began(next)
  }
  try {
    begin('write')
    await store.put(messageId, STAGE, probe)
    begin('read')
    const stream = await store.open(messageId, STAGE)
    const found = stream === undefined ? undefined : await buffer(stream)
    begin('compare')
    if (found === undefined || !probe.equals(found)) {
      await removeWhatIsLeft()
      return { ok: false, step, problem: 'The probe came back with other bytes' }
    }
    begin('delete')
    await remove(messageId, STAGE)
    return { ok: true }
  } catch (thrown) {
    await removeWhatIsLeft()
    return { ok: false, step, problem: problemOf(thrown), kind: kindOf(thrown) }
  }
}
