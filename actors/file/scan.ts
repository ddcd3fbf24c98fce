import { isUtf8 } from 'node:buffer'
import { lstatSync, opendirSync, type Dir, type Dirent, type Stats } from 'node:fs'
import { join } from 'node:path'
import { toCandidate, type Candidate } from './candidate.ts'
import { codeOf, isMissing, NoDirectory, type Directory } from './directory.ts'

/** Entries that one page tells of at most, so that no answer takes long. */
const PAGE_ENTRIES = 500
/** Names read from the system at once. */
const BUFFERED_NAMES = 256
/** A file that is being moved away has this name, with the id of its message. */
const TAKEN = /^\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.taken$/

export interface ScanOptions {
  /** How many directories lie between the base and a file. */
  readonly depth: number
  /** Directories that are not looked into: absolute paths. */
  readonly excluded: ReadonlySet<string>
  readonly matches: (name: string) => boolean
}

/** Something that is not taken although somebody may wait for it, or cannot be looked at. */
export interface Oddity {
  readonly path: string
  readonly text: string
  /** The system's code and text, where it was a failure. */
  readonly failure: { readonly code: string; readonly message: string } | null
}

export interface Page {
  readonly candidates: readonly Candidate[]
  readonly oddities: readonly Oddity[]
  /** Messages whose file was left while it was moved away. */
  readonly left: readonly string[]
}

type Entry = Dirent<Buffer>

/**
 * The regular files at the given depth whose name matches, in pages; in the order of the file system, which is none.
 * Symbolic links are not followed, and what begins with a dot is somebody's work in progress. What cannot be looked at,
 * or would lie there for ever, is told. Throws when the base itself cannot be read.
 */
export function* scan(base: Directory, options: ScanOptions): Generator<Page, void, void> {
  const scanner = new Scanner(options)
  yield* scanner.visit(base, '', options.depth)
  yield scanner.page()
}

class Scanner {
  readonly #options: ScanOptions
  #candidates: Candidate[] = []
  #oddities: Oddity[] = []
  #left: string[] = []
  #entries = 0

  constructor(options: ScanOptions) {
    this.#options = options
  }

  page(): Page {
    const page = { candidates: this.#candidates, oddities: this.#oddities, left: this.#left }
    this.#candidates = []
    this.#oddities = []
    this.#left = []
    this.#entries = 0
    return page
  }

  *visit(directory: Directory, path: string, depth: number): Generator<Page, void, void> {
    const below: string[] = []
    for (const entry of entriesOf(directory)) {
      this.#entries += 1
      if (this.#entries > PAGE_ENTRIES) yield this.page()
      if (this.#look(directory, path, entry, depth)) below.push(entry.name.toString())
    }
    for (const name of below) {
      const inner = path === '' ? name : `${path}/${name}`
      const entered = this.#unlessFailing(inner, () => directory.enter(name))
      if (entered === null) continue
      try {
        yield* this.visit(entered, inner, depth - 1)
      } catch (thrown) {
        // One folder that cannot be read does not keep the others from their way.
        this.#tell(inner, 'cannot look at it', thrown)
      } finally {
        entered.close()
      }
    }
  }

  /** Notes what the entry is. True for a directory that is to be looked into. */
  #look(directory: Directory, inside: string, entry: Entry, depth: number): boolean {
    const prefix = inside === '' ? '' : `${inside}/`
    const name = entry.name.toString()
    const path = prefix + name
    if (TAKEN.test(name)) this.#left.push(name.slice(1, -'.taken'.length))
    if (name.startsWith('.') || this.#options.excluded.has(join(directory.path, name))) return false
    if (!isUtf8(entry.name)) {
      // Two names that are not UTF-8 may read alike: the bytes tell them apart.
      this.#tell(prefix + escaped(entry.name), 'the name is not UTF-8, it is not taken', null)
      return false
    }
    const isWanted = this.#options.matches(name)
    if (entry.isFile() && !isWanted) return false
    // Some file systems do not say in a directory's list what its entries are.
    const found =
      entry.isFile() || isUnknown(entry)
        ? this.#unlessFailing(path, () => lstatSync(directory.at(name)))
        : entry
    if (found === null) return false
    const oddity = oddityOf(found, depth, isWanted)
    if (oddity !== null) this.#tell(path, oddity, null)
    else if (found.isFile() && isWanted) this.#candidates.push(toCandidate(path, found as Stats))
    return depth > 0 && found.isDirectory()
  }

  /** Null for what cannot be looked at; one unreadable folder or file does not keep the others from their way. */
  #unlessFailing<T>(path: string, act: () => T): T | null {
    try {
      return act()
    } catch (thrown) {
      this.#tell(path, 'cannot look at it', thrown)
      return null
    }
  }

  #tell(path: string, text: string, thrown: unknown): void {
    // It has gone meanwhile.
    if (thrown !== null && (isMissing(thrown) || thrown instanceof NoDirectory)) return
    this.#oddities.push({ path, text, failure: thrown === null ? null : failureOf(thrown) })
  }
}

/** Why an entry is never taken although somebody may wait for it. Files that the pattern leaves out are none. */
function oddityOf(found: Stats | Entry, depth: number, isWanted: boolean): string | null {
  if (found.isDirectory())
    return depth === 0 ? 'the directory lies deeper than path_pattern says, its files are not taken' : null
  if (!isWanted) return null
  if (found.isSymbolicLink()) return 'symbolic links are not followed, it is not taken'
  if (!found.isFile()) return 'it is no regular file, it is not taken'
  return depth > 0 ? 'the file lies less deep than path_pattern says, it is not taken' : null
}

function* entriesOf(directory: Directory): Generator<Entry, void, void> {
  // As bytes: a name that is not UTF-8 has no string that leads to it. The types know no such encoding here.
  const options = { encoding: 'buffer' as BufferEncoding, bufferSize: BUFFERED_NAMES }
  let open: Dir
  try {
    open = opendirSync(directory.at('.'), options)
  } catch (thrown) {
    throw directory.told(thrown)
  }
  try {
    for (let entry = open.readSync(); entry !== null; entry = open.readSync()) yield entry as unknown as Entry
  } finally {
    open.closeSync()
  }
}

function isUnknown(entry: Entry): boolean {
  return !(
    entry.isFile() ||
    entry.isDirectory() ||
    entry.isSymbolicLink() ||
    entry.isFIFO() ||
    entry.isSocket() ||
    entry.isBlockDevice() ||
    entry.isCharacterDevice()
  )
}

export function failureOf(thrown: unknown): { code: string; message: string } {
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return { code: codeOf(thrown) ?? message, message }
}

const escaped = (name: Buffer): string =>
  name
    .toString('latin1')
    .replaceAll(/[^ -~]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** How many directories a pattern puts above a file. */
export function depthOf(pathPattern: string): number {
  return pathPattern.split('/').length - 1
}
