import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** So much of what streams through may lie in memory that nobody uses any more. */
const COLLECT_AFTER_BYTES = 8 * 1024 * 1024

type CollectGarbage = (options: { readonly type: 'minor' }) => void

/** Reachable only through a flag of V8, which must not change what other code sees: it is taken from a context of its own. */
const collectGarbage: CollectGarbage = (() => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as CollectGarbage
  setFlagsFromString('--no-expose-gc')
  return collect
})()

/**
 * Keeps a large stream from growing the process. The chunks of a socket lie outside of the heap, and V8 collects those
 * that are done with only when there are 64 MiB of them. The answer is told the size of each chunk that has passed.
 */
export function youngMemoryKeeper(): (passedBytes: number) => void {
  let passed = 0
  return (passedBytes) => {
    passed += passedBytes
    if (passed < COLLECT_AFTER_BYTES) return
    passed = 0
    collectGarbage({ type: 'minor' })
  }
}
