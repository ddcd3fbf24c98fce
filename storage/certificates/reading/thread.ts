import { threadId, type MessagePort } from 'node:worker_threads'
import { toErrorData, WaybillError, type ErrorData } from '../../../runtime/errors.ts'
import type { FoundMaterial } from './material.ts'
import { parseUpload, type Upload } from './parse.ts'
import type { Part } from './refusal.ts'

/** The inside of a reading thread: one call of the default export for each upload. */

export interface ReadingTask {
  readonly upload: Upload
  /** Takes a `Begun` when the reading of a part begins. */
  readonly progress: MessagePort
}

/** Tells that the reading of a part begins. */
export interface Begun {
  readonly part: Part
  readonly threadId: number
  /** What the thread had used by then. */
  readonly cpu: NodeJS.CpuUsage
}

export type ReadingResult =
  | { readonly kind: 'found'; readonly material: FoundMaterial }
  | { readonly kind: 'refused'; readonly error: ErrorData }

export function begun(part: Part): Begun {
  return { part, threadId, cpu: process.threadCpuUsage() }
}

export default function read({ upload, progress }: ReadingTask): ReadingResult {
  try {
    const material = parseUpload(upload, (part: Part) => progress.postMessage(begun(part), []))
    return { kind: 'found', material }
  } catch (thrown) {
    // An error loses its code when it crosses to another thread as it is.
    if (thrown instanceof WaybillError) return { kind: 'refused', error: toErrorData(thrown) }
    throw thrown
  }
}
