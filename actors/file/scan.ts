import { isUtf8 } from 'node:buffer'
import type { Dirent, Stats } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Warnings } from './warnings.ts'

/** Files looked at in one round; what is beyond waits for the next. */
const MAX_FILES_PER_ROUND = 10_000

/** A file of the watched tree. `path` is relative to the base directory, with `/` between its parts. */
export interface Candidate {
  readonly path: string
  readonly name: string
  readonly size: number
  readonly mtimeMs: number
  readonly ino: number
}

export interface ScanOptions {
  readonly baseDirectory: string
  /** How many directories lie between the base and a file. */
  readonly depth: number
  /** Directories that are not looked into: absolute paths. */
  readonly excluded: ReadonlySet<string>
  readonly matches: (name: string) => boolean
  readonly warnings: Warnings
}

/**
 * The regular files at the given depth whose name matches. Symbolic links are not followed, and what begins with a
 * dot is somebody's work in progress. What cannot be looked at, or would lie there for ever, is skipped with a warning.
 */
export async function scan(options: ScanOptions): Promise<Candidate[]> {
  const found: Candidate[] = []
  await visit(options, '', options.depth, await entriesOf(options, ''), found)
  return found
}

type Entry = Dirent<Buffer>

function entriesOf(options: ScanOptions, directory: string): Promise<Entry[]> {
  // As bytes: a name that is not UTF-8 has no string that leads to it.
  return readdir(join(options.baseDirectory, directory), { withFileTypes: true, encoding: 'buffer' })
}

async function visit(
  options: ScanOptions,
  directory: string,
  depth: number,
  entries: Entry[],
  found: Candidate[],
): Promise<void> {
  entries.sort((one, other) => one.name.compare(other.name))
  const prefix = directory === '' ? '' : `${directory}/`
  for (const entry of entries) {
    if (found.length >= MAX_FILES_PER_ROUND) return
    const name = entry.name.toString()
    const path = prefix + name
    if (name.startsWith('.') || options.excluded.has(join(options.baseDirectory, path))) continue
    const oddity = oddityOf(options, entry, depth)
    if (oddity !== null) {
      // Two names that are not UTF-8 may read alike: the bytes tell them apart.
      const shown = isUtf8(entry.name) ? path : prefix + escaped(entry.name)
      options.warnings.warn(shown, null, oddity)
    } else if (depth > 0 && entry.isDirectory()) {
      const below = await unlessFailing(options, path, () => entriesOf(options, path))
      if (below !== null) await visit(options, path, depth - 1, below, found)
    } else if (entry.isFile() && options.matches(name)) {
      const stats = await unlessFailing(options, path, () => lookAt(join(options.baseDirectory, path)))
      if (stats !== null) found.push(toCandidate(path, stats))
    }
  }
}

/** Why an entry is never taken although somebody may wait for it. Files that the pattern leaves out are none. */
function oddityOf(options: ScanOptions, entry: Entry, depth: number): string | null {
  if (!isUtf8(entry.name)) return 'the name is not UTF-8, it is not taken'
  if (entry.isDirectory())
    return depth === 0 ? 'the directory lies deeper than path_pattern says, its files are not taken' : null
  if (!options.matches(entry.name.toString())) return null
  if (entry.isSymbolicLink()) return 'symbolic links are not followed, it is not taken'
  if (!entry.isFile()) return 'it is no regular file, it is not taken'
  return depth > 0 ? 'the file lies less deep than path_pattern says, it is not taken' : null
}

const escaped = (name: Buffer): string =>
  name
    .toString('latin1')
    .replaceAll(/[^ -~]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** Null for what cannot be looked at; one unreadable folder or file does not keep the others from their way. */
async function unlessFailing<T>(
  options: ScanOptions,
  path: string,
  act: () => Promise<T>,
): Promise<T | null> {
  try {
    return await act()
  } catch (error) {
    if (!isMissing(error)) options.warnings.warn(path, error, 'cannot look at it')
    return null
  }
}

/** Null when it has gone meanwhile, or is no regular file any more. */
export async function lookAt(path: string): Promise<Stats | null> {
  try {
    const stats = await lstat(path)
    return stats.isFile() ? stats : null
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ENOTDIR'
}

export function toCandidate(path: string, { size, mtimeMs, ino }: Stats): Candidate {
  return { path, name: path.slice(path.lastIndexOf('/') + 1), size, mtimeMs, ino }
}

export function sameFile(one: Candidate, other: Candidate): boolean {
  return (
    one.path === other.path &&
    one.size === other.size &&
    one.mtimeMs === other.mtimeMs &&
    one.ino === other.ino
  )
}

/** How many directories a pattern puts above a file. */
export function depthOf(pathPattern: string): number {
  return pathPattern.replaceAll(sep, '/').split('/').length - 1
}
