import { untouched, type Candidate } from './candidate.ts'

/** An empty file is more often one that somebody is about to write than one that is meant so. */
const EMPTY_SETTLE_MS = 10_000

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
  look(candidates: Iterable<Candidate>, nowMs: number): { settled: Candidate[]; nextInMs: number | null } {
    const seen = new Map<string, { readonly candidate: Candidate; readonly sinceMs: number }>()
    const settled: Candidate[] = []
    let nextInMs: number | null = null
    for (const candidate of candidates) {
      const before = this.#seen.get(candidate.path)
      const entry =
        before !== undefined && untouched(before.candidate, candidate)
          ? before
          : { candidate, sinceMs: nowMs }
      seen.set(candidate.path, entry)
      const leftMs = entry.sinceMs + this.#settleMsOf(candidate) - nowMs
      if (leftMs <= 0) settled.push(candidate)
      else nextInMs = Math.min(nextInMs ?? leftMs, leftMs)
    }
    this.#seen = seen
    return { settled, nextInMs }
  }

  #settleMsOf({ size }: Candidate): number {
    return size === 0 && this.#settleMs > 0 ? Math.max(this.#settleMs, EMPTY_SETTLE_MS) : this.#settleMs
  }
}
