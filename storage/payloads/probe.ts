import { rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Bucket } from './s3/bucket.ts'
import { DRAFTS, LocalStore } from './local-store.ts'
import { kindOf, problemOf } from './problem.ts'
import { CHECK_STEPS, type FailedCheck, type StoreCheck } from './store.ts'

/** What a test of a store does, in order; `open` makes the directory or reaches the bucket. */
export const PROBE_STEPS = ['open', ...CHECK_STEPS] as const
export type ProbeStep = (typeof PROBE_STEPS)[number]

export type ProbeResult = Extract<StoreCheck, { ok: true }> | FailedCheck<ProbeStep>

/**
 * Tries a bucket out as a start of the process would use it, and leaves nothing behind.
 *
 * @param began is told each step before it is taken.
 */
export async function probeBucket(storage: Bucket, began: (step: ProbeStep) => void): Promise<ProbeResult> {
  began('open')
  const { S3Store } = await import('./s3/s3-store.ts')
  const store = S3Store.at(storage)
  try {
    await store.reach()
    return await store.check(began)
  } catch (thrown) {
    return { ok: false, step: 'open', problem: problemOf(thrown), kind: kindOf(thrown) }
  } finally {
    store.close()
  }
}

/**
 * The same with a directory: one that is missing is made, and removed again.
 *
 * @param directory absolute.
 */
export async function probeDirectory(
  directory: string,
  began: (step: ProbeStep) => void,
): Promise<ProbeResult> {
  began('open')
  const missing = await missingOf(join(directory, DRAFTS))
  try {
    const store = await LocalStore.prepare(directory)
    return await store.check(began)
  } catch (thrown) {
    return { ok: false, step: 'open', problem: problemOf(thrown), kind: kindOf(thrown) }
  } finally {
    await removeEmpty(missing)
  }
}

/** The directories on the way to a path, and itself, that are not there; the deepest first. */
async function missingOf(path: string): Promise<readonly string[]> {
  const missing: string[] = []
  for (let at = path; !(await exists(at)) && at !== dirname(at); at = dirname(at)) missing.push(at)
  return missing
}

/** What cannot be looked at counts as there: it is not ours to remove. */
export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (thrown: unknown) => (thrown as NodeJS.ErrnoException).code !== 'ENOENT',
  )
}

/** What somebody has put something into meanwhile stays. */
async function removeEmpty(directories: readonly string[]): Promise<void> {
  for (const directory of directories) await rmdir(directory).catch(() => undefined)
}
