import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** So much of what streams through may lie in memory that nobody uses any more. */
const COLLECT_AFTER_BYTES = 8 * 1024 * 1024
/** Other threads may take the flag back at the same moment: each attempt is some microseconds. */
const MAX_ATTEMPTS = 100

type CollectGarbage = (options: { readonly type: 'minor' }) => void

/** Null as long as it was not looked for, or not found: then what is done with is collected later. */
let collectGarbage: CollectGarbage | null = null

/** Reachable only through a flag of V8, which must not change what other code sees: it is taken from a context of its own. */
function findCollector(): CollectGarbage | null {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('typeof gc === "undefined" ? null : gc') as CollectGarbage | null
    setFlagsFromString('--no-expose-gc')
    if (collect !== null) return collect
  }
  return null
}

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
    collectGarbage ??= findCollector()
    collectGarbage?.({ type: 'minor' })
  }
}
