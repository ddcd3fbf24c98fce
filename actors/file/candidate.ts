import type { Stats } from 'node:fs'

/** A file of the watched tree. `path` is relative to the base directory, with `/` between its parts. */
export interface Candidate {
  readonly path: string
  readonly name: string
  readonly size: number
  readonly mtimeMs: number
  /** Also changes when the file's name, rights or links do. */
  readonly ctimeMs: number
  readonly ino: number
}

export function toCandidate(path: string, { size, mtimeMs, ctimeMs, ino }: Stats): Candidate {
  return { path, name: nameOf(path), size, mtimeMs, ctimeMs, ino }
}

/** Whether it is the same file with the same content, as far as its facts tell; whatever it is called. */
export function sameContent(
  one: Pick<Candidate, 'size' | 'mtimeMs' | 'ino'>,
  other: Pick<Candidate, 'size' | 'mtimeMs' | 'ino'>,
): boolean {
  return one.size === other.size && one.mtimeMs === other.mtimeMs && one.ino === other.ino
}

export function sameFile(one: Candidate, other: Candidate): boolean {
  return one.path === other.path && sameContent(one, other)
}

/** Whether nothing at all was done to it: a content that was replaced with its old time put back is seen here. */
export function untouched(one: Candidate, other: Candidate): boolean {
  return sameFile(one, other) && one.ctimeMs === other.ctimeMs
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** '' for a file of the base directory itself. */
export function directoryOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}
