import { sameFile, type Candidate } from './candidate.ts'

/** By then no statement runs any more whose connection broke: the server ends each after a minute. */
const CERTAIN_AFTER_MS = 120_000

interface Entry {
  readonly candidate: Candidate
  readonly id: string
  readonly sinceMs: number
}

/**
 * Files whose acceptance got no answer: it may have been committed, and may yet be. Such a file keeps its message id
 * for the next try, so that the database itself refuses a second message, and its stored payload stays.
 */
export class UncertainAccepts {
  readonly #entries = new Map<string, Entry>()

  get size(): number {
    return this.#entries.size
  }

  get ids(): string[] {
    return [...this.#entries.keys()]
  }

  add(id: string, candidate: Candidate, nowMs: number): void {
    this.#entries.set(id, { candidate, id, sinceMs: this.#entries.get(id)?.sinceMs ?? nowMs })
  }

  /** It was committed, or cannot be any more. */
  remove(ids: Iterable<string>): void {
    for (const id of ids) this.#entries.delete(id)
  }

  idOf(candidate: Candidate): string | null {
    for (const entry of this.#entries.values()) if (sameFile(entry.candidate, candidate)) return entry.id
    return null
  }

  /** What certainly was not committed if it is not found now. */
  expired(nowMs: number): string[] {
    return [...this.#entries.values()]
      .filter(({ sinceMs }) => nowMs - sinceMs >= CERTAIN_AFTER_MS)
      .map(({ id }) => id)
  }
}
