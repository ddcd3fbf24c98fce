import { sameFile, type Candidate } from './scan.ts'

/**
 * Tells files that are complete from those that somebody still writes: one is taken when its size and time of change
 * have stood still for long enough, by what this process saw itself. Times of the file alone do not say it: a copy
 * may carry its original's time, and a network folder's clock its own.
 */
export class SettledFiles {
  readonly #settleMs: number
  #seen = new Map<string, { readonly candidate: Candidate; readonly sinceMs: number }>()

  constructor(settleMs: number) {
    this.#settleMs = settleMs
  }

  /** Takes one look at the tree. Answers what has settled, and in how many milliseconds the next may settle. */
  look(candidates: readonly Candidate[], nowMs: number): { settled: Candidate[]; nextInMs: number | null } {
    const seen = new Map<string, { readonly candidate: Candidate; readonly sinceMs: number }>()
    const settled: Candidate[] = []
    let nextInMs: number | null = null
    for (const candidate of candidates) {
      const before = this.#seen.get(candidate.path)
      const entry =
        before !== undefined && sameFile(before.candidate, candidate) ? before : { candidate, sinceMs: nowMs }
      seen.set(candidate.path, entry)
      const leftMs = entry.sinceMs + this.#settleMs - nowMs
      if (leftMs <= 0) settled.push(candidate)
      else nextInMs = Math.min(nextInMs ?? leftMs, leftMs)
    }
    this.#seen = seen
    return { settled, nextInMs }
  }
}
