import { randomBytes, randomUUID } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { reasonOf } from '../../runtime/errors.ts'
import type { PayloadStore, StoreCheck } from './store.ts'

const PROBE_BYTES = 1024

/** Stores a probe of its own message id, reads it back, compares and deletes it; names the step that fails. */
export async function checkStore(store: PayloadStore): Promise<StoreCheck> {
  const messageId = randomUUID()
  const probe = randomBytes(PROBE_BYTES)
  let step: 'write' | 'read' | 'compare' | 'delete' = 'write'
  try {
    await store.put(messageId, 'unpacked', probe)
    step = 'read'
    const stream = await store.open(messageId, 'unpacked')
    const found = stream === undefined ? undefined : await buffer(stream)
    step = 'compare'
    const same = found !== undefined && probe.equals(found)
    step = 'delete'
    await store.delete(messageId)
    return same
      ? { ok: true }
      : { ok: false, step: 'compare', problem: 'The probe came back with other bytes' }
  } catch (thrown) {
    if (step !== 'write') await store.delete(messageId).catch(() => undefined)
    return { ok: false, step, problem: reasonOf(thrown) }
  }
}
