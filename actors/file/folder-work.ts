import { accessSync, constants, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Candidate } from './candidate.ts'
import { codeOf, Directory, Walk } from './directory.ts'
import { KnownDirectory } from './known-directory.ts'
import { moveAway, type Move, type MoveOutcome } from './moves.ts'
import { nameMatcher } from './pattern.ts'
import { OpenFile, readWhole } from './reading.ts'
import { failureOf, scan, type Page } from './scan.ts'
import { isWithin } from './within.ts'

/** What a poller's folders are; the paths absolute. */
export interface FolderPlaces {
  readonly baseDirectory: string
  readonly processedDirectory: string
  readonly errorDirectory: string
  readonly depth: number
  readonly filePattern: string
}

export type ReadOutcome =
  | { readonly kind: 'read'; readonly bytes: Uint8Array }
  /** It changed while it was read or before, or has gone: it has not settled after all. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'failed'; readonly failure: { readonly code: string; readonly message: string } }

/** What a poller does with its folders. All of it is synchronous: see folder-process.ts. */
export class FolderWork {
  readonly #places: FolderPlaces
  /** By path: where files are moved to. */
  readonly #targets: ReadonlyMap<string, KnownDirectory>
  #scan: { readonly base: Directory; readonly pages: Generator<Page, void, void> } | null = null
  #file: { readonly walk: Walk; readonly file: OpenFile } | null = null

  private constructor(places: FolderPlaces) {
    this.#places = places
    const { processedDirectory, errorDirectory } = places
    this.#targets = new Map(
      [processedDirectory, errorDirectory].map((path) => [path, new KnownDirectory(path)]),
    )
  }

  /** Makes the directories, sees that they can be used, and takes their real paths. */
  static open(places: FolderPlaces): FolderWork {
    const baseDirectory = openDirectory(places.baseDirectory)
    const processedDirectory = openDirectory(places.processedDirectory)
    const errorDirectory = openDirectory(places.errorDirectory)
    // The settings compare paths; only here is it known where symbolic links lead.
    for (const directory of [processedDirectory, errorDirectory]) {
      if (isWithin(baseDirectory, directory))
        throw new Error(
          `The base directory ${baseDirectory} is or lies in ${directory}, where files are moved to`,
        )
    }
    return new FolderWork({ ...places, baseDirectory, processedDirectory, errorDirectory })
  }

  /** The number of the base directory: another one that is mounted at its place, or under it, has another. */
  identity(): number {
    const base = Directory.open(this.#places.baseDirectory)
    try {
      return base.ino
    } finally {
      base.close()
    }
  }

  /** The first page of a new look at the folder, or the next one; null when the look is over. */
  look(begin: boolean): Page | null {
    if (begin) this.endLook()
    const { baseDirectory, processedDirectory, errorDirectory, depth, filePattern } = this.#places
    if (this.#scan === null) {
      const base = Directory.open(baseDirectory)
      const excluded = new Set([processedDirectory, errorDirectory])
      this.#scan = { base, pages: scan(base, { depth, excluded, matches: nameMatcher(filePattern) }) }
    }
    try {
      const next = this.#scan.pages.next()
      if (next.done !== true) return next.value
    } catch (thrown) {
      this.endLook()
      throw thrown
    }
    this.endLook()
    return null
  }

  endLook(): void {
    this.#scan?.pages.return()
    this.#scan?.base.close()
    this.#scan = null
  }

  read(candidates: readonly Candidate[]): ReadOutcome[] {
    const walk = new Walk(this.#places.baseDirectory)
    try {
      return candidates.map((candidate) => {
        try {
          const bytes = readWhole(walk, candidate)
          return bytes === null ? { kind: 'changed' } : { kind: 'read', bytes }
        } catch (thrown) {
          return { kind: 'failed', failure: failureOf(thrown) }
        }
      })
    } finally {
      walk.close()
    }
  }

  /** Opens a file that is read in parts. False when it has gone or changed. */
  openFile(candidate: Candidate): boolean {
    this.closeFile()
    const walk = new Walk(this.#places.baseDirectory)
    try {
      const file = OpenFile.open(walk, candidate)
      if (file === null) {
        walk.close()
        return false
      }
      this.#file = { walk, file }
      return true
    } catch (thrown) {
      walk.close()
      throw thrown
    }
  }

  /** The next part; empty at the end, null when the file has changed. */
  readFile(bytes: number): Uint8Array | null {
    if (this.#file === null) throw new Error('No file is open')
    return this.#file.file.read(bytes)
  }

  closeFile(): void {
    this.#file?.file.close()
    this.#file?.walk.close()
    this.#file = null
  }

  moveAway(moves: readonly (Omit<Move, 'to'> & { readonly refused: boolean })[]): MoveOutcome[] {
    const { baseDirectory, processedDirectory, errorDirectory } = this.#places
    return moveAway(
      baseDirectory,
      moves.map(({ messageId, candidate, refused }) => {
        return { messageId, candidate, to: refused ? errorDirectory : processedDirectory }
      }),
      (path) => this.#openTarget(path),
    )
  }

  #openTarget(path: string): Walk {
    const known = this.#targets.get(path)
    if (known === undefined) throw new Error(`${path} is no directory that files are moved to`)
    return known.open(performance.now())
  }
}

function openDirectory(directory: string): string {
  makeDirectory(directory)
  accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK)
  return realpathSync(directory)
}

/** With those above it. Node's own recursive form tries for ever where the system makes no directories. */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { mode: 0o777 })
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT' && dirname(path) !== path) {
      makeDirectory(dirname(path))
      mkdirSync(path, { mode: 0o777 })
    } else if (codeOf(thrown) !== 'EEXIST' || !statSync(path).isDirectory()) {
      throw thrown
    }
  }
}
